//! Processes, their host's agent, and the controller. Rare beside calls, so encoded with serde.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::ids::{ActorId, FunctionId, GroupId, HostId, JobId, LeaseId, ObjectId, ProcId, RequestId, TaskId};
use crate::placement::{GroupRecord, GroupSpec, GroupState, InGroup, Wish};
use crate::resources::ResourceSet;
use crate::status::Status;
pub use crate::status::{BundleInfo, HostInfo};
use crate::value::{Block, ErrorValue, Place, Value};

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

/// What a process knows of the memory of the dead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    pub round: u64,
    /// Objects of dead owners that the sender holds, or held since it mourned.
    pub needs: Vec<Trace>,
    /// Its own objects that lie in the heaps of the dead.
    pub owned: Vec<Place>,
    /// Blocks of its own heap that hold objects of the dead.
    pub homed: Vec<Trace>,
}

/// An object of a dead owner, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    pub object: ObjectId,
    pub block: Option<Block>,
    /// References inside it.
    pub refs: Vec<ObjectId>,
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
    /// (`Retired`, but it owns objects or actors) says [`ToAgent::Hello`] again and stays.
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

/// Controller to a host's agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToHost {
    /// Find a worker for `lease`: tell it ([`FromController::Leased`]), then the controller
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

/// Why a worker is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitReason {
    /// Idle for long.
    Retired,
    /// The last handle of its actor is gone.
    OutOfScope,
    /// The job ends.
    Shutdown,
    /// Its actor goes on elsewhere, because its host is drained: what it has not begun goes back to the callers.
    Moved,
}

/// To the agent of the sender's host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// A worker is ready for work.
    Hello { pid: u32 },
    /// More shared memory, at least `bytes` in one piece. Answered by [`FromAgent::HeapGrown`].
    GrowHeap { request: RequestId, bytes: u64 },
    /// Whole extents that the sender's heap no longer uses.
    ShrinkHeap { extents: Vec<Extent> },
    /// The sender wants to read a block of another host, where the object lies. Answered by
    /// [`FromAgent::Pulled`]; the copy stays until [`ToAgent::Unneeded`].
    Pull { request: RequestId, place: Place },
    /// The sender reads the copy of that block no more, or does not wait for it any more.
    Unneeded { place: Place },
    /// From any process of the cluster: somebody here is about to need these, which lie elsewhere.
    Prefetch { places: Vec<Place> },
    /// Which hosts have the object's bytes. Answered by [`FromAgent::Located`].
    Locate { request: RequestId, place: Place },
}

/// From the agent of the receiver's host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    HeapGrown {
        request: RequestId,
        grown: Result<Extent, HeapFull>,
    },
    /// Memory is short: give back what is free.
    TrimHeap,
    /// Where the copy lies.
    Pulled {
        request: RequestId,
        copy: Result<Block, NoCopy>,
    },
    Located {
        request: RequestId,
        hosts: Vec<HostId>,
    },
}

/// Why there is no copy of a block of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoCopy {
    /// Its host is gone, and no other one has a copy.
    Lost,
    /// There is no room for it here.
    Full(HeapFull),
}

/// A stretch of a host's arena, leased to one process's heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    pub offset: u64,
    pub len: u64,
}

/// The arena has no such piece left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapFull {
    pub wanted: u64,
    pub free: u64,
    pub capacity: u64,
}

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

/// The end of a process, and what can be said of its last moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    pub cause: DeathCause,
    /// 0: not known.
    pub pid: u32,
    pub last_call: LastCall,
    /// The last few lines that it printed; empty if it printed nothing or nobody knows.
    pub last_output: String,
    /// Of a lost host: which one, and why it is gone; empty if nobody knows.
    pub host: String,
}

impl From<DeathCause> for Death {
    /// A death of which no more than its cause is known.
    fn from(cause: DeathCause) -> Self {
        Self { cause, pid: 0, last_call: LastCall::Unknown, last_output: String::new(), host: String::new() }
    }
}

/// The last call that a process began on its main thread. Calls run in the order in which they arrive:
/// what arrived after it was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LastCall {
    Unknown,
    None,
    /// It had not ended.
    Running(TaskId),
    /// It had ended, and its reply was on its way.
    Finished(TaskId),
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeathCause {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    /// Asked to end by the runtime.
    Requested {
        reason: ExitReason,
    },
    /// `kill` of its actor.
    Killed,
    HostLost,
}
