//! What any process and the controller say to each other: leases, actors, functions, groups, who lives.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::actors::{ActorInfo, ActorNotFound, ActorSpec, ActorState};
use super::deaths::{Death, ExitReason};
use super::stock::Stock;
use crate::environment::Environment;
use crate::ids::{ActorId, FunctionId, GroupId, HostId, JobId, LeaseId, ObjectId, ProcId, RequestId};
use crate::placement::{GroupRecord, GroupSpec, GroupState, InGroup, Wish};
use crate::resources::ResourceSet;
use crate::status::{HostInfo, Status};
use crate::value::{Block, ErrorValue};

/// To the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToController {
    /// So many tasks that need `resources` wait for a worker at this caller, in all, from now on
    /// (a state, not an increment; 0 withdraws). `key` is the caller's name for the shape.
    Demand {
        key: u32,
        job: JobId,
        resources: ResourceSet,
        backlog: u32,
        env: Environment,
        wish: Wish,
        /// Rather there, whatever its load: most of the bytes of the tasks' arguments lie there.
        near: Option<HostId>,
    },
    /// The caller is done with a worker, or its worker died.
    ReturnLease {
        lease: LeaseId,
    },
    /// The sending worker waits for objects: its CPUs are free until [`ToController::Unblocked`].
    Blocked,
    Unblocked,
    /// After [`ToController::Blocked`]: it waits for answers of all these actors, without a time limit
    /// or with one.
    Waiting {
        on: Vec<ActorId>,
    },
    /// Answered by [`FromController::ActorState`] (the creator watches from the start) or
    /// [`FromController::CreateRefused`].
    CreateActor {
        spec: Box<ActorSpec>,
    },
    /// From the worker: the constructor returned, or raised. From the creator, with an error and
    /// instead of [`ToController::CreateActor`]: an argument failed, the actor will never be.
    ActorReady {
        actor: ActorId,
        error: Option<ErrorValue>,
    },
    /// From the worker: the actor ended itself (`exit_actor`); it is not restarted.
    ActorExited {
        actor: ActorId,
    },
    /// `kill`. `no_restart: false` lets `max_restarts` apply.
    KillActor {
        actor: ActorId,
        no_restart: bool,
    },
    /// From the creator: nobody that it knows of holds a handle any more, and no call is outstanding.
    /// `given`: how many [`FromController::HandleGiven`] of this actor it knows of (its own finds count).
    ActorOutOfScope {
        actor: ActorId,
        given: u32,
    },
    /// Send [`FromController::ActorState`] now and at every change.
    WatchActor {
        actor: ActorId,
    },
    UnwatchActor {
        actor: ActorId,
    },
    /// Answered by [`FromController::ActorFound`]: who finds an actor holds a handle from then on.
    LookupActor {
        request: RequestId,
        name: String,
        namespace: String,
    },
    /// Answered by [`FromController::Actors`]: the living and the lately dead.
    ListActors {
        request: RequestId,
    },
    /// The sender holds this function or class, which is kept until [`ToController::DropFunction`], the
    /// sender's death, or the death of the last actor made of it, whichever comes last.
    PutFunction {
        id: FunctionId,
        body: Bytes,
    },
    /// Answered by [`FromController::Function`], as soon as somebody has put it.
    GetFunction {
        request: RequestId,
        id: FunctionId,
    },
    /// Send [`FromController::Died`] when that process dies, or now if it has.
    Watch {
        proc: ProcId,
    },
    /// Answered by [`FromController::Cluster`].
    DescribeCluster {
        request: RequestId,
    },
    /// The sender holds this function or class no longer: no object of its program and no call of its own
    /// names it.
    DropFunction {
        id: FunctionId,
    },
    /// Answer to [`FromController::Mourn`] and [`FromController::Flush`], once all that the sender sent before has left it.
    Mourned {
        round: u64,
    },
    /// Answer to [`FromController::TakeStock`].
    Stock(Stock),
    /// The owner of `object` is dead: where are its bytes, if they are still there? Answered by
    /// [`FromController::Found`] once all who may know have been asked.
    Seek {
        object: ObjectId,
    },
    /// The sender needs these no more, of what it named in its [`Stock`] or was told in
    /// [`FromController::Found`].
    LetGo {
        objects: Vec<ObjectId>,
    },
    /// Answered by [`FromController::GroupState`], now and at each change, until the sender dies or
    /// [`ToController::UnwatchGroup`]; by [`FromController::GroupRefused`] if its name is taken.
    CreateGroup {
        spec: Box<GroupSpec>,
    },
    RemoveGroup {
        group: GroupId,
    },
    /// Send [`FromController::GroupState`] now and at each change.
    WatchGroup {
        group: GroupId,
    },
    UnwatchGroup {
        group: GroupId,
    },
    /// Answered by [`FromController::Groups`]: of that name (none or one), of that id, or all that are
    /// known, the removed ones among them.
    FindGroups {
        request: RequestId,
        which: WhichGroups,
    },
    /// The host gets nothing new from now on and leaves once nothing runs there that cannot be moved, or
    /// after so many nanoseconds. Answered by [`FromController::Draining`].
    DrainHost {
        request: RequestId,
        host: HostId,
        reason: String,
        /// None: it waits without end.
        within: Option<u64>,
    },
    /// Answered by [`FromController::Status`].
    AskStatus {
        request: RequestId,
    },
}

/// Placement groups that are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhichGroups {
    All,
    One(GroupId),
    Named { name: String, namespace: String },
}

/// From the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromController {
    /// To the caller: `worker` is yours for tasks of shape `key`.
    LeaseGranted {
        key: u32,
        lease: LeaseId,
        worker: ProcId,
    },
    /// To a caller: others wait; give back leases that are idle now, and each as it becomes idle.
    ReclaimLeases,
    /// To the caller: why nothing of shape `key` can be placed at present. `never`: no host of the
    /// cluster could ever hold it.
    Unplaceable {
        key: u32,
        never: bool,
        reason: String,
    },
    /// To a worker, before its first call of the lease.
    Leased {
        lease: LeaseId,
        caller: ProcId,
        job: JobId,
        resources: ResourceSet,
        gpus: Vec<u32>,
        env: Environment,
        group: Option<InGroup>,
    },
    /// To a worker: become this actor.
    StartActor {
        spec: Box<ActorSpec>,
        restarts: u32,
        gpus: Vec<u32>,
    },
    /// To a watcher.
    ActorState {
        actor: ActorId,
        state: ActorState,
    },
    ActorFound {
        request: RequestId,
        found: Result<ActorInfo, ActorNotFound>,
    },
    Actors {
        request: RequestId,
        actors: Vec<ActorInfo>,
    },
    Function {
        request: RequestId,
        id: FunctionId,
        body: Bytes,
    },
    Died {
        proc: ProcId,
        death: Death,
    },
    Cluster {
        request: RequestId,
        hosts: Vec<HostInfo>,
    },
    /// To a worker that waits: what it waits for waits for it. The text names all in the circle.
    WaitCycle {
        text: String,
    },
    /// To a worker: end in an orderly way once the current call is over. A worker that cannot go yet
    /// (`Retired`, but it owns objects or actors) says [`crate::control::ToAgent::Hello`] again and stays.
    Exit {
        reason: ExitReason,
    },
    /// To the creator: there is no such actor and will not be (the name is taken).
    CreateRefused {
        actor: ActorId,
        reason: String,
    },
    /// To the creator: why the actor cannot be placed at present. `never`: no host of the cluster could
    /// ever hold it.
    ActorUnplaceable {
        actor: ActorId,
        never: bool,
        reason: String,
    },
    /// To the creator: `to` has found the actor by its name and holds a handle from now on, as if the
    /// creator had given it. It gives that back to the creator by [`crate::Message::Release`].
    HandleGiven {
        actor: ActorId,
        to: ProcId,
    },
    /// To all: these have died, and what they owned and held for others is being settled. From now on
    /// register yourself for what you hold through `dead`. `owners` have died earlier, and left memory
    /// that is still in use. Answered by [`ToController::Mourned`].
    Mourn {
        round: u64,
        dead: Vec<ProcId>,
        owners: Vec<ProcId>,
    },
    /// All have mourned. Answered by [`ToController::Stock`].
    TakeStock {
        round: u64,
    },
    /// Say [`ToController::Mourned`] once all that you sent before has left you.
    Flush {
        round: u64,
    },
    /// Where an object of a dead owner lies, and what is inside; none: nobody knows.
    Found {
        object: ObjectId,
        found: Option<(Block, Vec<ObjectId>)>,
    },
    /// Nobody holds anything through these dead any more: what was kept in their names may go.
    Settled {
        dead: Vec<ProcId>,
    },
    /// To the home of these blocks: their owners are dead, and nobody needs them.
    FreeBlocks {
        blocks: Vec<Block>,
    },
    /// To the caller: nothing of shape `key` can be placed, now or later. Tasks of it that wait fail with
    /// this error.
    Unschedulable {
        key: u32,
        error: ErrorValue,
    },
    /// To a watcher. `why`: what a group that is not created waits for, if that has been found out.
    GroupState {
        group: GroupId,
        state: GroupState,
        why: String,
    },
    /// To the creator: there is no such group and will not be (the name is taken).
    GroupRefused {
        group: GroupId,
        reason: String,
    },
    Groups {
        request: RequestId,
        groups: Vec<GroupRecord>,
    },
    /// Whether the host drains now, and else why not.
    Draining {
        request: RequestId,
        refused: Option<String>,
    },
    Status {
        request: RequestId,
        status: Box<Status>,
    },
}
