//! Why an agent did not start.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Nothing of the agent is left when it did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error(
        "no shared memory of {bytes} bytes for objects: {source}\n\
         hint: give a smaller one with init(object_store_memory=...) or --object-store-memory"
    )]
    Memory { bytes: u64, source: raymesh_shm::SegmentError },
    #[error("cannot start {program}: {source}\nhint: workers run the interpreter that runs the driver")]
    Python { program: String, source: io::Error },
    #[error("no interpreter given")]
    NoPython,
    #[error("the agent's thread panicked; its message is on standard error")]
    Panicked,
    #[error(transparent)]
    Link(#[from] raymesh_net::LinkError),
    #[error("the head gives an answer that does not parse\nhint: install the same raymesh on all hosts")]
    Answer,
    #[error("the cluster was lost before this host was in it: {reason}")]
    Lost { reason: String },
    #[error("not waited any longer for the head of the cluster")]
    Interrupted,
    #[error(
        "{through} is a host of the cluster, and says that the head is at {head}, but from here: {source}\nhint: all hosts \
         and programs of a cluster must reach its head themselves"
    )]
    HeadUnreachable { through: SocketAddr, head: SocketAddr, source: Box<raymesh_net::LinkError> },
    #[error("there is no way from here to {address}: {source}\nhint: check the address in the join string")]
    NoWay { address: SocketAddr, source: io::Error },
    #[error(
        "the other hosts of the cluster at {head} cannot reach {ip}\nhint: leave --listen out, or give the address of \
         this machine in their network"
    )]
    Hidden { ip: IpAddr, head: SocketAddr },
    #[error(
        "without TLS the hosts of a cluster are all on one machine, and {ip} is reached from others\nhint: leave \
         --no-tls out, or --listen"
    )]
    Unprotected { ip: IpAddr },
    #[error("the journal {} cannot be used: {reason}\nhint: {}", path.display(), trouble.hint())]
    Journal { path: PathBuf, reason: String, trouble: Trouble },
    #[error(
        "the journal {} is of {theirs}, and this is {ours}\nhint: start the head with the version that wrote it, \
         or remove the file to begin a new cluster", path.display()
    )]
    ForeignJournal { path: PathBuf, theirs: String, ours: String },
    #[error("the system refuses {what}: {source}\nhint: see the limits that `ulimit -a` shows")]
    System { what: &'static str, source: io::Error },
}

/// What kind of thing is wrong with a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// Another head writes it.
    Busy,
    /// It is not what a head has written.
    Damaged,
    Full,
    /// The system has its reasons.
    System,
}

impl Trouble {
    const fn hint(self) -> &'static str {
        match self {
            Self::Busy => {
                "another head runs with it: end that one, or start this one elsewhere (--port, --journal)"
            }
            Self::Damaged => {
                "the disk may be failing, or another program has written there. Put back a copy that is as new as the \
                 cluster, or remove the file to begin a new cluster"
            }
            Self::Full => "make room there, or give another folder with --journal",
            Self::System => "this user must be able to write there; --journal gives another folder",
        }
    }
}

impl StartError {
    /// For `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
