//! One message of each kind.

use bytes::Bytes;
use raymesh_wire::control::*;
use raymesh_wire::status::HostEnd;
use raymesh_wire::*;

/// The name of a message's kind. A new kind does not compile here: give it a name and a sample.
#[must_use]
pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::Call(call) => match call.target {
            CallTarget::Function { .. } => "call_function",
            CallTarget::Method { .. } => "call_method",
        },
        Message::Reply(_) => "reply",
        Message::Want { .. } => "want",
        Message::Lost { .. } => "lost",
        Message::Value { .. } => "value",
        Message::Borrow { .. } => "borrow",
        Message::Release { .. } => "release",
        Message::Recall { .. } => "recall",
        Message::Recalled { .. } => "recalled",
        Message::FreeBlocks { .. } => "free_blocks",
        Message::ToController(message) => match message {
            ToController::Demand { .. } => "to_controller_demand",
            ToController::ReturnLease { .. } => "to_controller_return_lease",
            ToController::Blocked => "to_controller_blocked",
            ToController::Unblocked => "to_controller_unblocked",
            ToController::Waiting { .. } => "to_controller_waiting",
            ToController::CreateActor { .. } => "to_controller_create_actor",
            ToController::ActorReady { .. } => "to_controller_actor_ready",
            ToController::ActorExited { .. } => "to_controller_actor_exited",
            ToController::KillActor { .. } => "to_controller_kill_actor",
            ToController::ActorOutOfScope { .. } => "to_controller_actor_out_of_scope",
            ToController::WatchActor { .. } => "to_controller_watch_actor",
            ToController::UnwatchActor { .. } => "to_controller_unwatch_actor",
            ToController::LookupActor { .. } => "to_controller_lookup_actor",
            ToController::ListActors { .. } => "to_controller_list_actors",
            ToController::PutFunction { .. } => "to_controller_put_function",
            ToController::GetFunction { .. } => "to_controller_get_function",
            ToController::Watch { .. } => "to_controller_watch",
            ToController::DescribeCluster { .. } => "to_controller_describe_cluster",
            ToController::DropFunction { .. } => "to_controller_drop_function",
            ToController::Mourned { .. } => "to_controller_mourned",
            ToController::Stock(_) => "to_controller_stock",
            ToController::Seek { .. } => "to_controller_seek",
            ToController::LetGo { .. } => "to_controller_let_go",
            ToController::CreateGroup { .. } => "to_controller_create_group",
            ToController::RemoveGroup { .. } => "to_controller_remove_group",
            ToController::WatchGroup { .. } => "to_controller_watch_group",
            ToController::UnwatchGroup { .. } => "to_controller_unwatch_group",
            ToController::FindGroups { .. } => "to_controller_find_groups",
            ToController::DrainHost { .. } => "to_controller_drain_host",
            ToController::AskStatus { .. } => "to_controller_ask_status",
        },
        Message::FromController(message) => match message {
            FromController::LeaseGranted { .. } => "from_controller_lease_granted",
            FromController::ReclaimLeases => "from_controller_reclaim_leases",
            FromController::Unplaceable { .. } => "from_controller_unplaceable",
            FromController::Leased { .. } => "from_controller_leased",
            FromController::StartActor { .. } => "from_controller_start_actor",
            FromController::ActorState { .. } => "from_controller_actor_state",
            FromController::ActorFound { .. } => "from_controller_actor_found",
            FromController::Actors { .. } => "from_controller_actors",
            FromController::Function { .. } => "from_controller_function",
            FromController::Died { .. } => "from_controller_died",
            FromController::Cluster { .. } => "from_controller_cluster",
            FromController::WaitCycle { .. } => "from_controller_wait_cycle",
            FromController::Exit { .. } => "from_controller_exit",
            FromController::CreateRefused { .. } => "from_controller_create_refused",
            FromController::ActorUnplaceable { .. } => "from_controller_actor_unplaceable",
            FromController::HandleGiven { .. } => "from_controller_handle_given",
            FromController::Mourn { .. } => "from_controller_mourn",
            FromController::TakeStock { .. } => "from_controller_take_stock",
            FromController::Flush { .. } => "from_controller_flush",
            FromController::Found { .. } => "from_controller_found",
            FromController::Settled { .. } => "from_controller_settled",
            FromController::FreeBlocks { .. } => "from_controller_free_blocks",
            FromController::Unschedulable { .. } => "from_controller_unschedulable",
            FromController::GroupState { .. } => "from_controller_group_state",
            FromController::GroupRefused { .. } => "from_controller_group_refused",
            FromController::Groups { .. } => "from_controller_groups",
            FromController::Draining { .. } => "from_controller_draining",
            FromController::Status { .. } => "from_controller_status",
        },
        Message::ToAgent(message) => match message {
            ToAgent::Hello { .. } => "to_agent_hello",
            ToAgent::GrowHeap { .. } => "to_agent_grow_heap",
            ToAgent::ShrinkHeap { .. } => "to_agent_shrink_heap",
            ToAgent::Pull { .. } => "to_agent_pull",
            ToAgent::Unneeded { .. } => "to_agent_unneeded",
            ToAgent::Prefetch { .. } => "to_agent_prefetch",
            ToAgent::Locate { .. } => "to_agent_locate",
        },
        Message::FromAgent(message) => match message {
            FromAgent::HeapGrown { .. } => "from_agent_heap_grown",
            FromAgent::TrimHeap => "from_agent_trim_heap",
            FromAgent::Pulled { .. } => "from_agent_pulled",
            FromAgent::Located { .. } => "from_agent_located",
        },
        Message::Between(message) => super::between::kind(message),
    }
}

/// How many kinds [`kind`] tells apart.
pub const KINDS: usize = 80 + super::between::KINDS;

const OWNER: ProcId = ProcId::new(HostId(1), 2, 3);
const OTHER: ProcId = ProcId::new(HostId(0x0102_0304), 0x3_ffff, 0x3fff);

const fn task(seq: u64) -> TaskId {
    TaskId { owner: OWNER, seq }
}

const fn object(seq: u64) -> ObjectId {
    ObjectId { owner: OTHER, seq, index: 1 }
}

const fn block() -> Block {
    Block { home: OWNER, offset: 0x1122_3344_5566, len: 1 << 33 }
}

const fn place(seq: u64) -> Place {
    Place { object: object(seq), block: block() }
}

fn trace() -> Trace {
    Trace { object: object(1), block: Some(block()), refs: vec![object(2)] }
}

const fn actor() -> ActorId {
    ActorId { creator: OWNER, seq: 7 }
}

fn inline() -> Value {
    Value::Inline(Bytes::from_static(b"inline"))
}

fn error() -> ErrorValue {
    ErrorValue::text(ErrorKind::ActorDied, "why")
}

fn resources() -> ResourceSet {
    [("CPU", Quantity(15_000)), ("GPU", Quantity(2_500)), ("\u{e4}", Quantity(u64::MAX))]
        .into_iter()
        .collect()
}

fn call(target: CallTarget) -> Message {
    Message::Call(Box::new(Call {
        task: task(0x0102_0304_0506_0708),
        attempt: 2,
        target,
        num_returns: 3,
        args: Value::Stored(block()),
        args_object: Some(object(9)),
        deps: vec![(object(10), inline()), (object(11), Value::Error(error()))],
        refs: vec![object(12), object(13), object(14)],
        dep_refs: vec![2, 0],
        places: vec![place(12)],
        options: Bytes::from_static(&[1, 2, 3]),
    }))
}

fn env() -> Environment {
    Environment(Bytes::from_static(b"{}"))
}

fn spec() -> Box<ActorSpec> {
    Box::new(ActorSpec {
        actor: actor(),
        job: JobId(4),
        class: FunctionId([0xcc; 16]),
        class_name: "module.Class".to_owned(),
        args: inline(),
        args_object: Some(object(1)),
        deps: vec![(object(2), Value::Stored(block()))],
        refs: vec![object(3)],
        resources: ResourceSet::new(),
        placement: resources(),
        wish: Wish::default(),
        name: "name".to_owned(),
        namespace: "namespace".to_owned(),
        detached: true,
        max_restarts: -1,
        max_concurrency: 1000,
        handle: Bytes::from_static(b"handle"),
        env: env(),
    })
}

fn info(state: ActorState) -> ActorInfo {
    ActorInfo {
        actor: actor(),
        name: "name".to_owned(),
        namespace: String::new(),
        class_name: "Class".to_owned(),
        state,
        restarts: 1,
        pid: 4321,
        handle: Bytes::from_static(b"handle"),
    }
}

/// One message of each kind, and of some kinds more than one.
#[must_use]
pub fn samples() -> Vec<Message> {
    let mut all = vec![
        call(CallTarget::Function { lease: LeaseId(5), function: FunctionId([0xab; 16]) }),
        call(CallTarget::Method { actor: actor(), name: "m\u{e9}thode".to_owned() }),
        Message::Reply(Box::new(Reply {
            task: task(1),
            attempt: 1,
            status: ReplyStatus::RaisedRetryable,
            exec_us: 123_456,
            returns: vec![
                Return { value: inline(), refs: vec![object(1)] },
                Return { value: Value::Stored(block()), refs: vec![] },
            ],
            holds: vec![object(2), object(2)],
            places: vec![place(1)],
        })),
        Message::Want { object: object(1) },
        Message::Lost { object: object(1), block: block() },
        Message::Value {
            object: object(1),
            value: Value::Error(error()),
            refs: vec![object(2)],
            places: vec![place(2)],
        },
        Message::Borrow { holds: vec![(object(1), OWNER), (object(2), OTHER)] },
        Message::Release { holds: vec![(object(1), OWNER, u32::MAX)] },
        Message::Recall { lease: LeaseId(6), max: 17 },
        Message::Recalled { lease: LeaseId(6), tasks: vec![task(1), task(2)] },
        Message::FreeBlocks { blocks: vec![block()] },
    ];
    all.extend(to_controller().into_iter().map(Message::ToController));
    all.extend(from_controller().into_iter().map(Message::FromController));
    all.extend(agent());
    all.extend(super::between::samples());
    all
}

fn to_controller() -> Vec<ToController> {
    let request = RequestId(300);
    let mut all = vec![
        ToController::Demand {
            key: 1,
            job: JobId(2),
            resources: resources(),
            backlog: 1000,
            env: env(),
            wish: Wish::default(),
            near: Some(HostId(4)),
        },
        ToController::ReturnLease { lease: LeaseId(3) },
        ToController::Blocked,
        ToController::Unblocked,
        ToController::Waiting { on: vec![actor()] },
        ToController::CreateActor { spec: spec() },
        ToController::ActorReady { actor: actor(), error: Some(error()) },
        ToController::ActorExited { actor: actor() },
        ToController::KillActor { actor: actor(), no_restart: true },
        ToController::ActorOutOfScope { actor: actor(), given: 300 },
        ToController::WatchActor { actor: actor() },
        ToController::UnwatchActor { actor: actor() },
        ToController::LookupActor { request, name: "n".to_owned(), namespace: "s".to_owned() },
        ToController::ListActors { request },
        ToController::PutFunction { id: FunctionId([1; 16]), body: Bytes::from_static(b"body") },
        ToController::GetFunction { request, id: FunctionId([1; 16]) },
        ToController::Watch { proc: OTHER },
        ToController::DescribeCluster { request },
        ToController::DropFunction { id: FunctionId([1; 16]) },
        ToController::Mourned { round: 1 << 40 },
        ToController::Stock(Stock {
            round: 3,
            needs: vec![trace(), Trace { block: None, refs: vec![], ..trace() }],
            owned: vec![place(4)],
            homed: vec![trace()],
        }),
        ToController::Seek { object: object(5) },
        ToController::LetGo { objects: vec![object(6), object(7)] },
    ];
    all.extend(super::placement::samples::to_controller());
    all
}

fn from_controller() -> Vec<FromController> {
    let request = RequestId(300);
    let death = Death {
        cause: DeathCause::Signaled { signal: 9 },
        pid: 4321,
        last_call: LastCall::Running(task(8)),
        last_output: "last words".to_owned(),
        host: "the second host".to_owned(),
    };
    let host = HostInfo {
        host: HostId(2),
        alive: true,
        name: "host".to_owned(),
        total: resources(),
        available: ResourceSet::new(),
        labels: vec![("zone".to_owned(), "a".to_owned())],
        store_capacity: 1 << 40,
        store_used: 1,
        workers: 3,
        pending: vec![(resources(), 2)],
        bundles: vec![super::placement::samples::bundle()],
        draining: Some(("maintenance".to_owned(), Some(5))),
        end: Some(HostEnd::unexpected("silence")),
    };
    let elsewhere = ActorNotFound { elsewhere: vec!["there".to_owned()] };
    let reason = "no host has that much".to_owned();
    let mut all = vec![
        FromController::LeaseGranted { key: 1, lease: LeaseId(2), worker: OTHER },
        FromController::ReclaimLeases,
        FromController::Unplaceable { key: 1, never: true, reason: reason.clone() },
        FromController::Leased {
            lease: LeaseId(1),
            caller: OWNER,
            job: JobId(2),
            resources: resources(),
            gpus: vec![0, 7],
            env: env(),
            group: Some(super::placement::samples::IN_GROUP),
        },
        FromController::StartActor { spec: spec(), restarts: 1, gpus: vec![3] },
        FromController::ActorState { actor: actor(), state: ActorState::Dead { error: error() } },
        FromController::ActorFound { request, found: Ok(info(ActorState::Alive { proc: OTHER })) },
        FromController::ActorFound { request, found: Err(elsewhere) },
        FromController::Actors {
            request,
            actors: vec![info(ActorState::Restarting), info(ActorState::Pending)],
        },
        FromController::Function { request, id: FunctionId([2; 16]), body: Bytes::from_static(b"body") },
        FromController::Died { proc: OTHER, death },
        FromController::Cluster { request, hosts: vec![host] },
        FromController::WaitCycle { text: "a waits for b".to_owned() },
        FromController::Exit { reason: ExitReason::OutOfScope },
        FromController::Exit { reason: ExitReason::Moved },
        FromController::CreateRefused { actor: actor(), reason: reason.clone() },
        FromController::ActorUnplaceable { actor: actor(), never: false, reason },
        FromController::HandleGiven { actor: actor(), to: OTHER },
        FromController::Mourn { round: 300, dead: vec![OWNER], owners: vec![OTHER] },
        FromController::TakeStock { round: 300 },
        FromController::Flush { round: 301 },
        FromController::Found { object: object(1), found: Some((block(), vec![object(2)])) },
        FromController::Found { object: object(1), found: None },
        FromController::Settled { dead: vec![OWNER, OTHER] },
        FromController::FreeBlocks { blocks: vec![block()] },
    ];
    all.extend(super::placement::samples::from_controller());
    all
}

fn agent() -> Vec<Message> {
    let extent = Extent { offset: 4 << 20, len: 8 << 20 };
    let full = HeapFull { wanted: 3, free: 2, capacity: 1 << 40 };
    let (request, place) = (RequestId(1), Place { object: object(1), block: block() });
    vec![
        Message::ToAgent(ToAgent::Hello { pid: 4321 }),
        Message::ToAgent(ToAgent::GrowHeap { request, bytes: 1 << 32 }),
        Message::ToAgent(ToAgent::ShrinkHeap { extents: vec![extent] }),
        Message::FromAgent(FromAgent::HeapGrown { request, grown: Ok(extent) }),
        Message::FromAgent(FromAgent::HeapGrown { request, grown: Err(full) }),
        Message::ToAgent(ToAgent::Pull { request, place }),
        Message::ToAgent(ToAgent::Unneeded { place }),
        Message::ToAgent(ToAgent::Prefetch { places: vec![place] }),
        Message::ToAgent(ToAgent::Locate { request, place }),
        Message::FromAgent(FromAgent::Pulled { request, copy: Ok(block()) }),
        Message::FromAgent(FromAgent::Pulled { request, copy: Err(NoCopy::Lost) }),
        Message::FromAgent(FromAgent::Pulled { request, copy: Err(NoCopy::Full(full)) }),
        Message::FromAgent(FromAgent::Located { request, hosts: vec![HostId(1), HostId(3)] }),
        Message::FromAgent(FromAgent::TrimHeap),
    ]
}
