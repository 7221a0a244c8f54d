//! What the controller and the agent of a host say to each other: the host's workers, and its memory.

use serde::{Deserialize, Serialize};

use super::actors::ActorSpec;
use super::deaths::{Death, ExitReason};
use crate::environment::Environment;
use crate::ids::{JobId, LeaseId, ProcId};
use crate::placement::InGroup;
use crate::resources::ResourceSet;
use crate::value::Block;

/// Controller to a host's agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToHost {
    /// Find a worker for `lease`: tell it ([`crate::FromController::Leased`]), then the controller
    /// ([`FromHost::LeaseBound`]), which tells the caller: grants and deaths reach a caller in order.
    BindLease {
        lease: LeaseId,
        caller: ProcId,
        job: JobId,
        resources: ResourceSet,
        gpus: Vec<u32>,
        env: Environment,
        group: Option<InGroup>,
    },
    /// The lease is over. `kill`: its caller died, so whatever the worker runs is for nobody; a lease
    /// that has no worker yet is then answered by [`FromHost::LeaseFailed`].
    EndLease {
        lease: LeaseId,
        kill: bool,
    },
    /// Find a worker that has not run anything and make it this actor. `start` counts as a lease.
    StartActor {
        start: LeaseId,
        spec: Box<ActorSpec>,
        restarts: u32,
        gpus: Vec<u32>,
    },
    /// Undo [`ToHost::StartActor`]: ends in [`FromHost::ActorStartFailed`] or the worker's death.
    CancelStart {
        start: LeaseId,
    },
    /// Let the worker end in an orderly way; by force if that takes long.
    EndWorker {
        proc: ProcId,
        reason: ExitReason,
    },
    KillWorker {
        proc: ProcId,
    },
    /// The driver of `job` is gone: its idle workers are of no more use.
    JobEnded {
        job: JobId,
    },
    /// The memory of `dead` is free, but for these blocks of it.
    Sweep {
        dead: ProcId,
        except: Vec<Block>,
    },
    /// Of what was left by [`ToHost::Sweep`], these are free, too.
    FreeBlocks {
        blocks: Vec<Block>,
    },
    /// It is drained: end.
    Leave,
    /// The controller knows the host: whoever asks for the cluster's hosts finds it from now on.
    Welcome,
}

/// A host's agent to the controller. What a process of the host has sent to the controller arrives
/// before the [`FromHost::Died`] about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromHost {
    /// First of all.
    Joined {
        name: String,
        total: ResourceSet,
        labels: Vec<(String, String)>,
        store_capacity: u64,
    },
    ProcStarted {
        proc: ProcId,
        pid: u32,
        driver: bool,
    },
    LeaseBound {
        lease: LeaseId,
        worker: ProcId,
    },
    /// No worker could be started for it, or it was ended before.
    LeaseFailed {
        lease: LeaseId,
        reason: String,
    },
    ActorStarted {
        start: LeaseId,
        proc: ProcId,
        pid: u32,
    },
    ActorStartFailed {
        start: LeaseId,
        reason: String,
    },
    /// `memory`: it had some of the object arena. `under_way`: what was sent from there may not have arrived
    /// at third hosts; [`FromHost::Heard`] follows.
    Died {
        proc: ProcId,
        death: Death,
        memory: bool,
        under_way: bool,
    },
    /// All that this dead process has sent has arrived.
    Heard {
        proc: ProcId,
    },
    /// Bytes of the object arena that are leased to heaps.
    Usage {
        store_used: u64,
    },
}
