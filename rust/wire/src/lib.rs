//! What raymesh processes say to each other: ids, messages, and their encoding.
//!
//! - [`ids`]: who and what a message is about. Ids are global from birth: no id means something
//!   only on one host.
//! - [`resources`]: fixed-point resource quantities.
//! - [`placement`]: where things may run, placement groups.
//! - [`value`]: the value of an object as it travels: inline bytes, a block of shared memory, or an
//!   error.
//! - [`message`]: process to process: calls, replies, ownership.
//! - [`control`]: process to controller and back: leases, actors, names.
//! - [`status`]: how the cluster stands, for whoever asks.
//! - [`environment`]: what a worker takes up before it works for a job.
//! - [`between`]: agents of two hosts. [`envelope`]: processes of two hosts.
//! - [`codec`]: messages to bytes and back. Decoders treat their input as hostile.

pub mod between;
pub mod codec;
pub mod control;
pub mod envelope;
pub mod environment;
pub mod ids;
pub mod message;
pub mod placement;
pub mod resources;
pub mod status;
pub mod value;

pub use codec::{DecodeError, decode, encode};
pub use control::{FromController, ToController};
pub use environment::Environment;
pub use ids::{ActorId, FunctionId, GroupId, HostId, JobId, LeaseId, ObjectId, ProcId, RequestId, TaskId};
pub use message::{Call, CallTarget, Message, Reply, ReplyStatus, Return};
pub use placement::{GroupRecord, GroupSpec, GroupState, InGroup, Wish};
pub use resources::{Quantity, ResourceSet};
pub use value::{Block, ErrorKind, ErrorValue, Place, Value};

/// Version of the encoding. A peer with another version is refused.
pub const WIRE_VERSION: u16 = 2;

/// What the definitions of all messages hash to (`build.rs`). Two builds of one version in which it differs do
/// not understand each other.
pub const LAYOUT: u64 = number(env!("RAYMESH_WIRE_LAYOUT"));

const fn number(digits: &str) -> u64 {
    match u64::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("the build script prints a number"),
    }
}
