//! The host alone: its controller, zygote and workers are played by the tests.

use bytes::Bytes;
use raymesh_wire::control::{ActorSpec, Death, DeathCause, ExitReason, FromHost, ToHost};
use raymesh_wire::{
    ActorId, Environment, FromController, FunctionId, HostId, JobId, LeaseId, ProcId, Quantity, ResourceSet,
    Value,
};

use super::{Config, Effect, Event, Host};

const SECOND: u64 = 1_000_000_000;

struct World {
    host: Host,
    now: u64,
    said: Vec<Effect>,
}

impl World {
    fn new(adjust: impl FnOnce(&mut Config)) -> Self {
        let total: ResourceSet = [("CPU", Quantity(2 * Quantity::SCALE))].into_iter().collect();
        let mut config = Config::new(HostId(0), "host", total);
        adjust(&mut config);
        let mut world = Self { host: Host::new(config), now: SECOND, said: Vec::new() };
        world.host.start(world.now, &mut world.said);
        world
    }

    fn event(&mut self, event: Event) -> &[Effect] {
        self.said.clear();
        self.host.handle(self.now, event, &mut self.said);
        &self.said
    }

    fn order(&mut self, message: ToHost) -> &[Effect] {
        self.event(Event::FromController(message))
    }

    fn forks(&self) -> Vec<ProcId> {
        let fork = |effect: &Effect| match effect {
            Effect::Fork { proc } => Some(*proc),
            _ => None,
        };
        self.said.iter().filter_map(fork).collect()
    }

    fn kills(&self) -> Vec<ProcId> {
        let kill = |effect: &Effect| match effect {
            Effect::Kill { proc } => Some(*proc),
            _ => None,
        };
        self.said.iter().filter_map(kill).collect()
    }

    fn reports(&self) -> Vec<FromHost> {
        let report = |effect: &Effect| match effect {
            Effect::ToController(message) => Some(message.clone()),
            _ => None,
        };
        self.said.iter().filter_map(report).collect()
    }

    /// Lease `n` for a task of `job`; the workers forked for it.
    fn bind(&mut self, n: u64, job: u32) -> Vec<ProcId> {
        self.bind_in(n, job, &[])
    }

    fn bind_in(&mut self, n: u64, job: u32, env: &'static [u8]) -> Vec<ProcId> {
        self.order(ToHost::BindLease {
            lease: LeaseId(n),
            caller: caller(),
            job: JobId(job),
            resources: ResourceSet::new(),
            gpus: Vec::new(),
            env: Environment(Bytes::from_static(env)),
            group: None,
        });
        self.forks()
    }

    /// Who was asked to end by the last event.
    fn exits(&self) -> Vec<ProcId> {
        let exit = |effect: &Effect| match effect {
            Effect::Send { to, message: FromController::Exit { .. } } => Some(*to),
            _ => None,
        };
        self.said.iter().filter_map(exit).collect()
    }

    fn start(&mut self, n: u64) -> Vec<ProcId> {
        let spec = ActorSpec {
            actor: ActorId { creator: caller(), seq: n as u32 },
            job: JobId(1),
            class: FunctionId([0; 16]),
            class_name: String::new(),
            args: Value::Inline(Bytes::new()),
            args_object: None,
            deps: Vec::new(),
            refs: Vec::new(),
            resources: ResourceSet::new(),
            placement: ResourceSet::new(),
            wish: raymesh_wire::Wish::default(),
            name: String::new(),
            namespace: String::new(),
            detached: false,
            max_restarts: 0,
            max_concurrency: 0,
            handle: Bytes::new(),
            env: Environment::default(),
        };
        self.order(ToHost::StartActor {
            start: LeaseId(n),
            spec: Box::new(spec),
            restarts: 0,
            gpus: Vec::new(),
        });
        self.forks()
    }

    fn hello(&mut self, proc: ProcId) -> &[Effect] {
        self.event(Event::Hello { proc, pid: 100 + proc.slot() })
    }

    fn end(&mut self, n: u64) -> &[Effect] {
        self.order(ToHost::EndLease { lease: LeaseId(n), kill: false })
    }

    /// Worker bound to which lease or start by the last event.
    fn bound(&self) -> Vec<(LeaseId, ProcId)> {
        let bound = |message| match message {
            FromHost::LeaseBound { lease, worker } => Some((lease, worker)),
            FromHost::ActorStarted { start, proc, .. } => Some((start, proc)),
            _ => None,
        };
        self.reports().into_iter().filter_map(bound).collect()
    }
}

fn caller() -> ProcId {
    Host::driver_slot(HostId(0))
}

#[test]
fn a_worker_knows_of_its_lease_before_anybody_else_does() {
    let mut world = World::new(|_| {});
    let worker = world.bind(1, 1)[0];
    let said = world.hello(worker).to_vec();
    let sends: Vec<_> = said.iter().filter(|effect| !matches!(effect, Effect::Fork { .. })).collect();
    assert!(matches!(sends[0], Effect::ToController(FromHost::ProcStarted { .. })), "{sends:?}");
    assert!(matches!(sends[1], Effect::Send { to, message: FromController::Leased { .. } } if *to == worker));
    assert!(matches!(sends[2], Effect::ToController(FromHost::LeaseBound { .. })));
}

#[test]
fn idle_workers_are_used_again_for_their_job_only() {
    let mut world = World::new(|_| {});
    let worker = world.bind(1, 1)[0];
    world.hello(worker);
    world.end(1);
    assert!(world.bind(2, 1).is_empty());
    assert_eq!(world.bound(), [(LeaseId(2), worker)]);
    world.end(2);
    assert_eq!(world.bind(3, 2).len(), 1);
}

#[test]
fn a_worker_that_took_up_an_environment_serves_no_other() {
    let mut world = World::new(|_| {});
    let worker = world.bind_in(1, 1, b"a")[0];
    world.hello(worker);
    // They wait for a worker of their own, also when the other one is free.
    assert_eq!(world.bind_in(2, 1, b"b").len(), 1);
    assert_eq!(world.bind_in(3, 1, b"").len(), 1);
    world.end(1);
    assert_eq!(world.bound(), []);
    assert!(world.bind_in(4, 1, b"a").is_empty());
    assert_eq!(world.bound(), [(LeaseId(4), worker)]);
    world.end(4);
    // Whatever it has taken up, it ends with its job.
    world.order(ToHost::JobEnded { job: JobId(1) });
    assert_eq!(world.exits(), [worker]);
}

#[test]
fn an_actor_gets_a_worker_that_has_run_nothing_and_keeps_it() {
    let mut world = World::new(|_| {});
    let used = world.bind(1, 1)[0];
    world.hello(used);
    world.end(1);
    let fresh = world.start(2)[0];
    world.hello(fresh);
    assert_eq!(world.bound(), [(LeaseId(2), fresh)]);
    assert!(world.bind(3, 1).is_empty());
    assert_eq!(world.bound(), [(LeaseId(3), used)]);
}

#[test]
fn a_worker_forked_ahead_makes_an_actor_at_once() {
    let mut world = World::new(|config| config.spare = 1);
    let spare = world.forks()[0];
    world.hello(spare);
    let next = world.start(1);
    assert_eq!(world.bound(), [(LeaseId(1), spare)]);
    assert_eq!(next.len(), 1, "another spare one is forked");
}

#[test]
fn spare_workers_that_lack_something_are_replaced_but_never_missed() {
    let mut world = World::new(|config| config.spare = 2);
    let old = world.forks();
    for proc in &old {
        world.hello(*proc);
    }
    world.event(Event::Outdated { procs: old.clone() });
    let new = world.forks();
    assert_eq!(new.len(), 2);
    world.hello(new[0]);
    assert_eq!(world.exits(), [], "not before there are enough others");
    // Needed at once: the one that is up to date goes first, then an old one.
    let more = world.bind(1, 1);
    assert_eq!(world.bound(), [(LeaseId(1), new[0])]);
    world.bind(2, 1);
    assert_eq!(world.bound(), [(LeaseId(2), old[1])]);
    world.hello(new[1]);
    world.hello(more[0]);
    assert_eq!(world.exits(), [old[0]]);
    // Once in use, it is a worker like any other.
    world.end(2);
    assert_eq!(world.exits(), []);
    world.bind(3, 1);
    assert_eq!(world.bound(), [(LeaseId(3), old[1])]);
}

#[test]
fn a_worker_that_lacks_something_as_it_starts_is_replaced_too() {
    let mut world = World::new(|config| config.spare = 1);
    let old = world.forks()[0];
    world.event(Event::Outdated { procs: vec![old] });
    assert!(world.forks().is_empty());
    world.hello(old);
    let new = world.forks()[0];
    world.hello(new);
    assert_eq!(world.exits(), [old]);
}

#[test]
fn no_more_workers_start_at_once_than_allowed() {
    let mut world = World::new(|config| config.max_starting = 3);
    let mut forks = Vec::new();
    for n in 1..=10 {
        forks.extend(world.bind(n, 1));
    }
    assert_eq!(forks.len(), 3);
    world.hello(forks[0]);
    assert_eq!(world.forks().len(), 1);
}

#[test]
fn a_worker_that_dies_as_it_starts_is_replaced_and_its_lease_is_not_lost() {
    let mut world = World::new(|_| {});
    let first = world.bind(1, 1)[0];
    world.event(Event::ProcDied {
        proc: first,
        death: DeathCause::Exited { code: 1 }.into(),
        memory: false,
        under_way: false,
    });
    let second = world.forks()[0];
    assert_ne!(first, second);
    world.hello(second);
    assert_eq!(world.bound(), [(LeaseId(1), second)]);
}

#[test]
fn forks_that_keep_failing_are_reported() {
    let mut world = World::new(|_| {});
    let mut proc = world.bind(1, 1)[0];
    for _ in 0..2 {
        world.event(Event::ForkFailed { proc, reason: "no memory".to_owned() });
        proc = world.forks()[0];
    }
    world.event(Event::ForkFailed { proc, reason: "no memory".to_owned() });
    let reason = "no memory".to_owned();
    assert_eq!(world.reports(), [FromHost::LeaseFailed { lease: LeaseId(1), reason }]);
    assert!(world.forks().is_empty());
}

/// Or the agent would do nothing else, as long as what is missing is missing.
#[test]
fn a_spare_worker_that_cannot_start_is_not_tried_again_at_once() {
    let mut world = World::new(|config| config.spare = 1);
    let spare = world.forks()[0];
    world.event(Event::ForkFailed { proc: spare, reason: "too many open files".to_owned() });
    assert!(world.forks().is_empty());
    // Somebody who waits is another matter.
    let wanted = world.bind(1, 1)[0];
    world.event(Event::ForkFailed { proc: wanted, reason: "too many open files".to_owned() });
    assert_eq!(world.forks().len(), 1);
    world.hello(world.forks()[0]);
    assert!(world.forks().is_empty());
    world.now = world.host.next_deadline().unwrap();
    world.event(Event::Tick);
    assert_eq!(world.forks().len(), 1);
}

#[test]
fn no_process_name_is_used_twice() {
    let mut world = World::new(|_| {});
    let mut names = Vec::new();
    for n in 1..100 {
        let proc = world.bind(n, 1)[0];
        assert!(proc.slot() >= 2);
        assert!(!names.contains(&proc));
        names.push(proc);
        world.hello(proc);
        world.event(Event::ProcDied {
            proc,
            death: DeathCause::Killed.into(),
            memory: false,
            under_way: false,
        });
    }
}

#[test]
fn surplus_idle_workers_retire_and_may_decline() {
    let mut world = World::new(|config| config.keep_idle = 1);
    let workers: Vec<_> = (1..=3).flat_map(|n| world.bind(n, 1)).collect();
    for worker in &workers {
        world.hello(*worker);
    }
    for n in 1..=3 {
        world.end(n);
    }
    world.now = world.host.next_deadline().unwrap();
    world.event(Event::Tick);
    let exits = world.said.iter().filter_map(|effect| match effect {
        Effect::Send { to, message: FromController::Exit { reason: ExitReason::Retired } } => Some(*to),
        _ => None,
    });
    let exits: Vec<_> = exits.collect();
    assert_eq!(exits.len(), 2);
    // One cannot go: it is kept in place of the last, and used again.
    world.hello(exits[0]);
    assert_eq!(world.host.next_deadline().unwrap(), world.now + 30 * SECOND, "only the deadlines to end");
    assert!(world.bind(10, 1).is_empty());
    assert_eq!(world.bound(), [(LeaseId(10), exits[0])]);
    let cause = DeathCause::Exited { code: 0 };
    world.event(Event::ProcDied { proc: exits[1], death: cause.into(), memory: false, under_way: false });
    let cause = DeathCause::Requested { reason: ExitReason::Retired };
    assert!(matches!(&world.reports()[..], [FromHost::Died { death, .. }] if death.cause == cause));
}

#[test]
fn spare_workers_are_not_retired_and_forked_again_for_ever() {
    let mut world = World::new(|config| {
        config.spare = 3;
        config.keep_idle = 1;
    });
    for proc in world.forks() {
        world.hello(proc);
    }
    assert_eq!(world.host.next_deadline(), None);
}

#[test]
fn a_worker_that_does_not_end_in_time_is_killed() {
    let mut world = World::new(|_| {});
    let worker = world.start(1)[0];
    world.hello(worker);
    let reason = ExitReason::OutOfScope;
    world.order(ToHost::EndWorker { proc: worker, reason });
    assert!(world.kills().is_empty());
    world.now = world.host.next_deadline().unwrap();
    world.event(Event::Tick);
    assert_eq!(world.kills(), [worker]);
    world.event(Event::ProcDied {
        proc: worker,
        death: DeathCause::Signaled { signal: 9 }.into(),
        memory: false,
        under_way: false,
    });
    let cause = DeathCause::Requested { reason };
    assert!(matches!(&world.reports()[..], [FromHost::Died { death, .. }] if death.cause == cause));
}

#[test]
fn a_lease_that_ends_by_its_callers_death_takes_its_worker_along() {
    let mut world = World::new(|_| {});
    let worker = world.bind(1, 1)[0];
    world.bind(2, 1);
    world.hello(worker);
    world.order(ToHost::EndLease { lease: LeaseId(1), kill: true });
    assert_eq!(world.kills(), [worker]);
    world.order(ToHost::EndLease { lease: LeaseId(2), kill: true });
    assert!(matches!(&world.reports()[..], [FromHost::LeaseFailed { lease: LeaseId(2), .. }]));
}

#[test]
fn idle_workers_of_an_ended_job_end() {
    let mut world = World::new(|_| {});
    let workers: Vec<_> = (1..=2).flat_map(|n| world.bind(n, 1)).collect();
    for worker in &workers {
        world.hello(*worker);
    }
    world.end(1);
    let exits = |world: &World| {
        world
            .said
            .iter()
            .filter(|e| matches!(e, Effect::Send { message: FromController::Exit { .. }, .. }))
            .count()
    };
    world.order(ToHost::JobEnded { job: JobId(1) });
    assert_eq!(exits(&world), 1);
    world.end(2);
    assert_eq!(exits(&world), 1);
}

#[test]
fn a_cancelled_start_is_answered() {
    let mut world = World::new(|_| {});
    world.start(1);
    world.order(ToHost::CancelStart { start: LeaseId(1) });
    assert!(matches!(&world.reports()[..], [FromHost::ActorStartFailed { .. }]));
    let late = world.start(2);
    let worker = *late.first().unwrap_or(&ProcId::new(HostId(0), 1, 2));
    world.hello(worker);
    world.order(ToHost::CancelStart { start: LeaseId(2) });
    assert_eq!(world.kills(), [worker]);
}

#[test]
fn a_signal_from_elsewhere_is_not_taken_for_our_doing() {
    let mut world = World::new(|_| {});
    let worker = world.start(1)[0];
    world.hello(worker);
    world.order(ToHost::EndWorker { proc: worker, reason: ExitReason::OutOfScope });
    let cause = DeathCause::Signaled { signal: 11 };
    world.event(Event::ProcDied {
        proc: worker,
        death: cause.clone().into(),
        memory: false,
        under_way: false,
    });
    assert!(matches!(&world.reports()[..], [FromHost::Died { death, .. }] if death.cause == cause));
}

#[test]
fn a_driver_that_dies_is_reported() {
    let mut world = World::new(|_| {});
    let other = world.host.allocate_driver().unwrap();
    for (proc, pid) in [(caller(), 7), (other, 8)] {
        world.event(Event::DriverJoined { proc, pid });
        assert_eq!(world.reports(), [FromHost::ProcStarted { proc, pid, driver: true }]);
        let cause = DeathCause::Exited { code: 0 };
        world.event(Event::ProcDied { proc, death: cause.clone().into(), memory: false, under_way: false });
        assert_eq!(
            world.reports(),
            [FromHost::Died { proc, death: Death { pid, ..cause.into() }, memory: false, under_way: false }]
        );
    }
}
