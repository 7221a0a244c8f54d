//! An actor: what starts it, how it stands, and what is said of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::ids::{ActorId, FunctionId, JobId, ObjectId, ProcId};
use crate::placement::Wish;
use crate::resources::ResourceSet;
use crate::value::{ErrorValue, Value};

/// All that is needed to start an actor, also again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActorSpec {
    pub actor: ActorId,
    pub job: JobId,
    pub class: FunctionId,
    pub class_name: String,
    /// Constructor arguments, as in [`crate::Call`]; the creator holds what they refer to until the
    /// actor is dead for good.
    pub args: Value,
    pub args_object: Option<ObjectId>,
    pub deps: Vec<(ObjectId, Value)>,
    pub refs: Vec<ObjectId>,
    /// Held while the actor lives.
    pub resources: ResourceSet,
    /// Needed free on the host to place it (covers `resources`).
    pub placement: ResourceSet,
    pub wish: Wish,
    /// Empty: no name.
    pub name: String,
    pub namespace: String,
    pub detached: bool,
    /// -1: without end.
    pub max_restarts: i64,
    /// 0: the kind's default (1, or 1000 for async).
    pub max_concurrency: u32,
    /// What a handle needs to know (methods, options), opaque to the runtime.
    pub handle: Bytes,
    pub env: Environment,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActorState {
    /// Waits for resources, or its constructor runs.
    Pending,
    Alive {
        proc: ProcId,
    },
    Restarting,
    Dead {
        error: ErrorValue,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActorInfo {
    pub actor: ActorId,
    pub name: String,
    pub namespace: String,
    pub class_name: String,
    pub state: ActorState,
    pub restarts: u32,
    pub pid: u32,
    pub handle: Bytes,
}

/// What `get_actor` can say about a name that it did not find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorNotFound {
    /// Namespaces that do have an actor of this name.
    pub elsewhere: Vec<String>,
}
