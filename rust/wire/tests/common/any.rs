//! Random messages of every kind.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use raymesh_wire::control::*;
use raymesh_wire::status::HostEnd;
use raymesh_wire::*;

use super::placement::{in_group, wish};

const FEW: std::ops::Range<usize> = 0..4;

fn n32() -> impl Strategy<Value = u32> {
    any::<u32>()
}

fn n64() -> impl Strategy<Value = u64> {
    any::<u64>()
}

fn env() -> impl Strategy<Value = Environment> {
    bytes().prop_map(Environment)
}

fn flag() -> impl Strategy<Value = bool> {
    any::<bool>()
}

pub fn job() -> impl Strategy<Value = JobId> {
    n32().prop_map(JobId)
}

pub fn proc() -> impl Strategy<Value = ProcId> {
    any::<u64>().prop_map(ProcId::from_u64)
}

fn task() -> impl Strategy<Value = TaskId> {
    (proc(), any::<u64>()).prop_map(|(owner, seq)| TaskId { owner, seq })
}

pub fn object() -> impl Strategy<Value = ObjectId> {
    (task(), any::<u32>()).prop_map(|(task, index)| task.object(index))
}

fn objects() -> impl Strategy<Value = Vec<ObjectId>> {
    vec(object(), FEW)
}

fn actor() -> impl Strategy<Value = ActorId> {
    (proc(), any::<u32>()).prop_map(|(creator, seq)| ActorId { creator, seq })
}

fn block() -> impl Strategy<Value = Block> {
    (proc(), n64(), n64()).prop_map(|(home, offset, len)| Block { home, offset, len })
}

fn place() -> impl Strategy<Value = Place> {
    (object(), block()).prop_map(|(object, block)| Place { object, block })
}

fn places() -> impl Strategy<Value = Vec<Place>> {
    vec(place(), FEW)
}

fn traces() -> impl Strategy<Value = Vec<Trace>> {
    let trace = (object(), option::of(block()), objects());
    vec(trace.prop_map(|(object, block, refs)| Trace { object, block, refs }), FEW)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

pub fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..8).prop_map(|chars| chars.into_iter().collect())
}

fn lease() -> impl Strategy<Value = LeaseId> {
    n64().prop_map(LeaseId)
}

pub fn request() -> impl Strategy<Value = RequestId> {
    n64().prop_map(RequestId)
}

fn function() -> impl Strategy<Value = FunctionId> {
    any::<[u8; 16]>().prop_map(FunctionId)
}

/// Every kind of error.
pub const ERRORS: [ErrorKind; 16] = [
    ErrorKind::Task,
    ErrorKind::ActorInit,
    ErrorKind::WorkerCrashed,
    ErrorKind::ActorDied,
    ErrorKind::ActorUnavailable,
    ErrorKind::ObjectLost,
    ErrorKind::OwnerDied,
    ErrorKind::StoreFull,
    ErrorKind::Cancelled,
    ErrorKind::Unschedulable,
    ErrorKind::ActorUnschedulable,
    ErrorKind::PendingCallsLimit,
    ErrorKind::System,
    ErrorKind::Argument,
    ErrorKind::NodeDied,
    ErrorKind::Unrebuildable,
];

pub fn error() -> impl Strategy<Value = ErrorValue> {
    (proptest::sample::select(&ERRORS), bytes()).prop_map(|(kind, payload)| ErrorValue { kind, payload })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        bytes().prop_map(Value::Inline),
        block().prop_map(Value::Stored),
        error().prop_map(Value::Error)
    ]
}

pub fn resources() -> impl Strategy<Value = ResourceSet> {
    vec((text(), n64().prop_map(Quantity)), FEW).prop_map(|items| items.into_iter().collect())
}

fn call() -> impl Strategy<Value = Call> {
    let target = prop_oneof![
        (lease(), function()).prop_map(|(lease, function)| CallTarget::Function { lease, function }),
        (actor(), text()).prop_map(|(actor, name)| CallTarget::Method { actor, name }),
    ];
    let deps = vec((object(), value(), any::<u32>()), FEW);
    let head = (task(), n32(), target, n32(), value());
    (head, option::of(object()), deps, objects(), places(), bytes()).prop_map(
        |((task, attempt, target, num_returns, args), args_object, deps, refs, places, options)| Call {
            task,
            attempt,
            target,
            num_returns,
            args,
            args_object,
            dep_refs: deps.iter().map(|(_, _, inside)| *inside).collect(),
            deps: deps.into_iter().map(|(object, value, _)| (object, value)).collect(),
            refs,
            places,
            options,
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    let status = prop_oneof![
        Just(ReplyStatus::Ok),
        Just(ReplyStatus::Raised),
        Just(ReplyStatus::RaisedRetryable),
        Just(ReplyStatus::Failed)
    ];
    let item = (value(), objects()).prop_map(|(value, refs)| Return { value, refs });
    (task(), n32(), status, n32(), vec(item, FEW), objects(), places()).prop_map(
        |(task, attempt, status, exec_us, returns, holds, places)| Reply {
            task,
            attempt,
            status,
            exec_us,
            returns,
            holds,
            places,
        },
    )
}

fn spec() -> impl Strategy<Value = Box<ActorSpec>> {
    let what = (actor(), job(), function(), text());
    let args = (value(), option::of(object()), vec((object(), value()), FEW), objects());
    let place = (resources(), resources(), text(), text(), any::<bool>(), wish());
    (what, args, place, any::<i64>(), n32(), bytes(), env()).prop_map(
        |(
            (actor, job, class, class_name),
            (args, args_object, deps, refs),
            (resources, placement, name, namespace, detached, wish),
            max_restarts,
            max_concurrency,
            handle,
            env,
        )| {
            Box::new(ActorSpec {
                actor,
                job,
                class,
                class_name,
                args,
                args_object,
                deps,
                refs,
                resources,
                placement,
                wish,
                name,
                namespace,
                detached,
                max_restarts,
                max_concurrency,
                handle,
                env,
            })
        },
    )
}

fn state() -> impl Strategy<Value = ActorState> {
    prop_oneof![
        Just(ActorState::Pending),
        proc().prop_map(|proc| ActorState::Alive { proc }),
        Just(ActorState::Restarting),
        error().prop_map(|error| ActorState::Dead { error }),
    ]
}

fn info() -> impl Strategy<Value = ActorInfo> {
    (actor(), text(), text(), text(), state(), n32(), n32(), bytes()).prop_map(
        |(actor, name, namespace, class_name, state, restarts, pid, handle)| ActorInfo {
            actor,
            name,
            namespace,
            class_name,
            state,
            restarts,
            pid,
            handle,
        },
    )
}

fn reason() -> impl Strategy<Value = ExitReason> {
    prop_oneof![
        Just(ExitReason::Retired),
        Just(ExitReason::OutOfScope),
        Just(ExitReason::Shutdown),
        Just(ExitReason::Moved)
    ]
}

fn death() -> impl Strategy<Value = Death> {
    let cause = prop_oneof![
        any::<i32>().prop_map(|code| DeathCause::Exited { code }),
        any::<i32>().prop_map(|signal| DeathCause::Signaled { signal }),
        reason().prop_map(|reason| DeathCause::Requested { reason }),
        Just(DeathCause::Killed),
        Just(DeathCause::HostLost),
    ];
    let last_call = prop_oneof![
        Just(LastCall::Unknown),
        Just(LastCall::None),
        task().prop_map(LastCall::Running),
        task().prop_map(LastCall::Finished),
    ];
    (cause, n32(), last_call, text(), text()).prop_map(|(cause, pid, last_call, last_output, host)| Death {
        cause,
        pid,
        last_call,
        last_output,
        host,
    })
}

fn host() -> impl Strategy<Value = HostInfo> {
    let first = (n32().prop_map(HostId), flag(), text(), resources(), resources());
    let labels = vec((text(), text()), FEW);
    let draining = option::of((text(), option::of(n64())));
    (first, labels, n64(), n64(), n32(), vec((resources(), n32()), FEW), draining).prop_map(
        |(first, labels, store_capacity, store_used, workers, pending, draining)| {
            let (host, alive, name, total, available) = first;
            HostInfo {
                host,
                alive,
                name,
                total,
                available,
                labels,
                store_capacity,
                store_used,
                workers,
                pending,
                bundles: vec![super::placement::samples::bundle()],
                draining,
                end: Some(HostEnd::unexpected("silence")),
            }
        },
    )
}

fn to_controller() -> impl Strategy<Value = ToController> {
    let leases = prop_oneof![
        (n32(), job(), resources(), n32(), env(), wish(), option::of(n32().prop_map(HostId))).prop_map(
            |(key, job, resources, backlog, env, wish, near)| {
                ToController::Demand { key, job, resources, backlog, env, wish, near }
            }
        ),
        lease().prop_map(|lease| ToController::ReturnLease { lease }),
        Just(ToController::Blocked),
        Just(ToController::Unblocked),
        vec(actor(), FEW).prop_map(|on| ToController::Waiting { on }),
        proc().prop_map(|proc| ToController::Watch { proc }),
    ];
    let actors = prop_oneof![
        spec().prop_map(|spec| ToController::CreateActor { spec }),
        (actor(), option::of(error())).prop_map(|(actor, error)| ToController::ActorReady { actor, error }),
        actor().prop_map(|actor| ToController::ActorExited { actor }),
        (actor(), flag()).prop_map(|(actor, no_restart)| ToController::KillActor { actor, no_restart }),
        (actor(), n32()).prop_map(|(actor, given)| ToController::ActorOutOfScope { actor, given }),
        actor().prop_map(|actor| ToController::WatchActor { actor }),
        actor().prop_map(|actor| ToController::UnwatchActor { actor }),
    ];
    let questions = prop_oneof![
        (request(), text(), text()).prop_map(|(request, name, namespace)| ToController::LookupActor {
            request,
            name,
            namespace
        }),
        request().prop_map(|request| ToController::ListActors { request }),
        (function(), bytes()).prop_map(|(id, body)| ToController::PutFunction { id, body }),
        (request(), function()).prop_map(|(request, id)| ToController::GetFunction { request, id }),
        function().prop_map(|id| ToController::DropFunction { id }),
        request().prop_map(|request| ToController::DescribeCluster { request }),
    ];
    let deaths = prop_oneof![
        n64().prop_map(|round| ToController::Mourned { round }),
        (n64(), traces(), places(), traces()).prop_map(|(round, needs, owned, homed)| ToController::Stock(
            Stock { round, needs, owned, homed }
        )),
        object().prop_map(|object| ToController::Seek { object }),
        objects().prop_map(|objects| ToController::LetGo { objects }),
    ];
    prop_oneof![leases, actors, questions, deaths, super::placement::to_controller()]
}

fn from_controller() -> impl Strategy<Value = FromController> {
    let gpus = || vec(any::<u32>(), FEW);
    let work = prop_oneof![
        (n32(), lease(), proc()).prop_map(|(key, lease, worker)| FromController::LeaseGranted {
            key,
            lease,
            worker
        }),
        Just(FromController::ReclaimLeases),
        (n32(), flag(), text()).prop_map(|(key, never, reason)| FromController::Unplaceable {
            key,
            never,
            reason
        }),
        (lease(), proc(), job(), resources(), gpus(), env(), option::of(in_group())).prop_map(
            |(lease, caller, job, resources, gpus, env, group)| FromController::Leased {
                lease,
                caller,
                job,
                resources,
                gpus,
                env,
                group
            }
        ),
        (spec(), n32(), gpus()).prop_map(|(spec, restarts, gpus)| FromController::StartActor {
            spec,
            restarts,
            gpus
        }),
        (proc(), death()).prop_map(|(proc, death)| FromController::Died { proc, death }),
        text().prop_map(|text| FromController::WaitCycle { text }),
        reason().prop_map(|reason| FromController::Exit { reason }),
    ];
    let found = prop_oneof![
        info().prop_map(Ok),
        vec(text(), FEW).prop_map(|elsewhere| Err(ActorNotFound { elsewhere }))
    ];
    let answers = prop_oneof![
        (actor(), state()).prop_map(|(actor, state)| FromController::ActorState { actor, state }),
        (request(), found).prop_map(|(request, found)| FromController::ActorFound { request, found }),
        (request(), vec(info(), FEW))
            .prop_map(|(request, actors)| FromController::Actors { request, actors }),
        (request(), function(), bytes()).prop_map(|(request, id, body)| FromController::Function {
            request,
            id,
            body
        }),
        (request(), vec(host(), FEW)).prop_map(|(request, hosts)| FromController::Cluster { request, hosts }),
        (actor(), text()).prop_map(|(actor, reason)| FromController::CreateRefused { actor, reason }),
        (actor(), proc()).prop_map(|(actor, to)| FromController::HandleGiven { actor, to }),
        (actor(), flag(), text()).prop_map(|(actor, never, reason)| FromController::ActorUnplaceable {
            actor,
            never,
            reason
        }),
    ];
    let procs = || vec(proc(), FEW);
    let deaths = prop_oneof![
        (n64(), procs(), procs()).prop_map(|(round, dead, owners)| FromController::Mourn {
            round,
            dead,
            owners
        }),
        n64().prop_map(|round| FromController::TakeStock { round }),
        n64().prop_map(|round| FromController::Flush { round }),
        (object(), option::of((block(), objects())))
            .prop_map(|(object, found)| FromController::Found { object, found }),
        procs().prop_map(|dead| FromController::Settled { dead }),
        vec(block(), FEW).prop_map(|blocks| FromController::FreeBlocks { blocks }),
    ];
    prop_oneof![work, answers, deaths, super::placement::from_controller()]
}

fn agent() -> impl Strategy<Value = Message> {
    let extent = || (n64(), n64()).prop_map(|(offset, len)| Extent { offset, len });
    let full =
        || (n64(), n64(), n64()).prop_map(|(wanted, free, capacity)| HeapFull { wanted, free, capacity });
    let grown = prop_oneof![extent().prop_map(Ok), full().prop_map(Err)];
    let no_copy = prop_oneof![Just(NoCopy::Lost), full().prop_map(NoCopy::Full)];
    let copy = prop_oneof![block().prop_map(Ok), no_copy.prop_map(Err)];
    prop_oneof![
        n32().prop_map(|pid| Message::ToAgent(ToAgent::Hello { pid })),
        (request(), n64())
            .prop_map(|(request, bytes)| Message::ToAgent(ToAgent::GrowHeap { request, bytes })),
        vec(extent(), FEW).prop_map(|extents| Message::ToAgent(ToAgent::ShrinkHeap { extents })),
        (request(), grown)
            .prop_map(|(request, grown)| Message::FromAgent(FromAgent::HeapGrown { request, grown })),
        (request(), place()).prop_map(|(request, place)| Message::ToAgent(ToAgent::Pull { request, place })),
        vec(place(), FEW).prop_map(|places| Message::ToAgent(ToAgent::Prefetch { places })),
        (request(), copy).prop_map(|(request, copy)| Message::FromAgent(FromAgent::Pulled { request, copy })),
        Just(Message::FromAgent(FromAgent::TrimHeap)),
    ]
}

pub fn message() -> impl Strategy<Value = Message> {
    let calls = prop_oneof![
        call().prop_map(|call| Message::Call(Box::new(call))),
        reply().prop_map(|reply| Message::Reply(Box::new(reply))),
        (lease(), n32()).prop_map(|(lease, max)| Message::Recall { lease, max }),
        (lease(), vec(task(), FEW)).prop_map(|(lease, tasks)| Message::Recalled { lease, tasks }),
    ];
    let objects =
        prop_oneof![
            object().prop_map(|object| Message::Want { object }),
            (object(), block()).prop_map(|(object, block)| Message::Lost { object, block }),
            (object(), value(), objects(), places())
                .prop_map(|(object, value, refs, places)| Message::Value { object, value, refs, places }),
            vec((object(), proc()), FEW).prop_map(|holds| Message::Borrow { holds }),
            vec((object(), proc(), n32()), FEW).prop_map(|holds| Message::Release { holds }),
            vec(block(), FEW).prop_map(|blocks| Message::FreeBlocks { blocks }),
        ];
    prop_oneof![
        calls,
        objects,
        to_controller().prop_map(Message::ToController),
        from_controller().prop_map(Message::FromController),
        agent(),
        super::between::any(),
    ]
}
