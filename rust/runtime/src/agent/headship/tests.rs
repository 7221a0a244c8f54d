//! A head that is lost at every point at which it writes, and hosts that go on with the next.

#![allow(clippy::disallowed_methods)] // real files, real waits

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use raymesh_sys::fd::eventfd;
use raymesh_wire::between::Up;
use raymesh_wire::control::{ActorSpec, FromHost, ToHost};
use raymesh_wire::status::HostEnd;
use raymesh_wire::{
    ActorId, FromController, FunctionId, JobId, LeaseId, ProcId, Quantity, ResourceSet, ToController, Value,
    decode,
};

use raymesh_core::between::Line;
use raymesh_core::controller::Effect;
use raymesh_wire::between::Down;
use raymesh_wire::{Message, encode};

use super::*;

const HEAD: HostId = HostId(1);

/// A host without processes of its own: it does what it is told at once.
struct Fake {
    id: HostId,
    line: Line<Up>,
    /// Leases and starts that it was told of, and the workers for them.
    workers: BTreeMap<LeaseId, ProcId>,
    /// Words for its driver.
    told: Vec<FromController>,
}

impl Fake {
    fn new(id: u32) -> Self {
        Self { id: HostId(id), line: Line::default(), workers: BTreeMap::new(), told: Vec::new() }
    }

    fn driver(&self) -> ProcId {
        ProcId::new(self.id, 0, 1)
    }

    fn say(&mut self, word: Up) {
        self.line.push(word);
        self.line.release_all();
    }

    fn say_as(&mut self, from: ProcId, message: ToController) {
        let mut bytes = Vec::new();
        encode(&Message::ToController(message), &mut bytes);
        self.say(Up::Of { from, message: bytes.into() });
    }

    fn employ(&mut self, lease: LeaseId) -> ProcId {
        let worker = ProcId::new(self.id, 1, self.workers.len() as u32 + 2);
        assert_eq!(self.workers.insert(lease, worker), None, "{lease:?} twice");
        self.say(Up::Host(FromHost::ProcStarted { proc: worker, pid: 100, driver: false }));
        worker
    }

    fn hear(&mut self, number: u64, heard: u64, word: Down) {
        self.line.heard(heard);
        if !self.line.accept(number) {
            return;
        }
        self.line.settle(number);
        match word {
            Down::Host(ToHost::BindLease { lease, .. }) => {
                let worker = self.employ(lease);
                self.say(Up::Host(FromHost::LeaseBound { lease, worker }));
            }
            Down::Host(ToHost::StartActor { start, spec, .. }) => {
                let proc = self.employ(start);
                self.say(Up::Host(FromHost::ActorStarted { start, proc, pid: 100 }));
                self.say_as(proc, ToController::ActorReady { actor: spec.actor, error: None });
            }
            Down::Host(_) => {}
            Down::To { to, message } => {
                let Ok(Message::FromController(message)) = decode(message) else { panic!("garbage") };
                assert_eq!(to, self.driver());
                if let FromController::LeaseGranted { lease, .. } = &message {
                    // It has nothing to do there after all.
                    self.say_as(self.driver(), ToController::ReturnLease { lease: *lease });
                }
                self.told.push(message);
            }
        }
    }

    fn granted(&self) -> BTreeSet<LeaseId> {
        let granted = self.told.iter().filter_map(|message| match message {
            FromController::LeaseGranted { lease, .. } => Some(*lease),
            _ => None,
        });
        granted.collect()
    }
}

fn actor(creator: ProcId, seq: u32, name: &str) -> ToController {
    let cpu = ResourceSet::from_iter([("CPU", Quantity::ONE)]);
    ToController::CreateActor {
        spec: Box::new(ActorSpec {
            actor: ActorId { creator, seq },
            job: JobId(2),
            class: FunctionId([7; 16]),
            class_name: "A".to_owned(),
            args: Value::Inline(Bytes::new()),
            args_object: None,
            deps: Vec::new(),
            refs: Vec::new(),
            resources: cpu.clone(),
            placement: cpu,
            wish: raymesh_wire::Wish::default(),
            name: name.to_owned(),
            namespace: "n".to_owned(),
            detached: true,
            max_restarts: 0,
            max_concurrency: 0,
            handle: Bytes::new(),
            env: raymesh_wire::Environment::default(),
        }),
    }
}

/// How the head is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// Before what it wrote last was on disk.
    Unwritten,
    /// After that, and before anybody heard of it.
    Unsaid,
    /// After everybody has heard of it.
    Said,
}

struct Cluster {
    folder: PathBuf,
    headship: Headship,
    controller: Controller,
    hosts: Vec<Fake>,
    now: u64,
    written: u64,
    lost: u32,
}

impl Cluster {
    fn new(name: &str) -> Self {
        // In memory where there is such a place: what a disk does is not asked here.
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = base.join(format!("raymesh-head-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut headship = Headship::new(HEAD, Duration::ZERO);
        let controller = Controller::new();
        headship.keep_journal(&folder, b"", 0, &controller, eventfd().unwrap()).unwrap();
        let hosts = vec![Fake::new(2), Fake::new(3)];
        let mut cluster = Self { folder, headship, controller, hosts, now: 0, written: 0, lost: 0 };
        for host in [2, 3] {
            cluster.headship.books.take_in(HostId(host), None);
            cluster.headship.record(&Record::Admitted { host: HostId(host), address: None });
        }
        cluster.commit();
        cluster.meet();
        cluster
    }

    /// The program of the driver on the first host, and what the hosts say of themselves.
    fn begin(&mut self) {
        for host in &mut self.hosts {
            host.say(Up::Host(FromHost::Joined {
                name: "fake".to_owned(),
                total: ResourceSet::from_iter([("CPU", Quantity::from_f64(4.0))]),
                labels: Vec::new(),
                store_capacity: 1 << 30,
            }));
        }
        let first = &mut self.hosts[0];
        let me = first.driver();
        first.say(Up::Host(FromHost::ProcStarted { proc: me, pid: 1, driver: true }));
        first.say_as(me, actor(me, 1, "kept"));
        first.say(Up::Of { from: me, message: Bytes::from_static(b"nonsense") });
        first.say_as(me, actor(me, 2, ""));
        let resources = ResourceSet::from_iter([("CPU", Quantity::ONE)]);
        first.say_as(
            me,
            ToController::Demand {
                key: 1,
                job: JobId(2),
                resources,
                backlog: 3,
                env: raymesh_wire::Environment::default(),
                wish: raymesh_wire::Wish::default(),
                near: None,
            },
        );
        first.say_as(me, actor(me, 3, "killed"));
        first
            .say_as(me, ToController::KillActor { actor: ActorId { creator: me, seq: 3 }, no_restart: true });
    }

    fn commit(&self) {
        let Some(journal) = &self.headship.journal else { return };
        let began = Instant::now();
        while journal.committed() < journal.last() {
            assert!(began.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// All hosts and the head say how far they are.
    fn meet(&mut self) {
        for host in &mut self.hosts {
            let Some(line) = self.headship.books.line(host.id) else { panic!("it is forgotten") };
            line.open(host.line.arrived());
            host.line.open(line.arrived());
        }
    }

    /// Takes in one word of one host; false if there is none.
    fn write(&mut self) -> bool {
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[(at + self.written as usize) % 2];
            let heard = host.line.tell();
            let Some((number, word)) = host.line.next_word().map(|(number, word)| (number, word.clone()))
            else {
                continue;
            };
            let id = host.id;
            if !self.headship.books.accept(id, number, heard) {
                continue;
            }
            let event = match word {
                Up::Host(message) => Event::FromHost { host: id, message },
                Up::Of { from, message } => match decode(message) {
                    Ok(Message::ToController(message)) => Event::Message { from, message },
                    // As an agent does with what it cannot use: it has arrived, and is nowhere in the journal.
                    _ => return true,
                },
            };
            self.now += 1;
            self.written += 1;
            self.headship.decide(self.now, Some((id, number)), event, &mut self.controller);
            return true;
        }
        false
    }

    /// Has the hosts hear what is decided and written.
    fn tell(&mut self) {
        self.commit();
        while let Some((_, due)) = self.headship.next_due() {
            for due in due {
                if let Due::Release(host, number) = due
                    && let Some(line) = self.headship.books.line(host)
                {
                    line.release(number);
                }
            }
        }
        for host in &mut self.hosts {
            let Some(line) = self.headship.books.line(host.id) else { continue };
            let heard = line.tell();
            while let Some((number, word)) = line.next_word().map(|(number, word)| (number, word.clone())) {
                host.hear(number, heard, word);
            }
        }
    }

    fn lose_head(&mut self, loss: Loss) {
        // It writes what it was given, and is gone.
        drop(std::mem::replace(&mut self.headship, Headship::new(HEAD, Duration::ZERO)));
        let mut saved = journal::read(&self.folder).unwrap().unwrap();
        if loss == Loss::Unwritten {
            assert!(saved.log.pop().is_some());
        }
        let Resumed { headship, controller, now, formers } =
            Headship::resume(&saved, Duration::ZERO).unwrap();
        assert!(now <= self.now);
        assert_eq!(formers, [if self.lost == 0 { HEAD } else { HostId(3 + self.lost) }]);
        assert_eq!(headship.books.me(), HostId(4 + self.lost));
        (self.headship, self.controller, self.lost) = (headship, controller, self.lost + 1);
        let wake = eventfd().unwrap();
        self.headship.keep_journal(&self.folder, b"", saved.last(), &self.controller, wake).unwrap();
        self.meet();
        for host in formers {
            self.headship.decide(self.now, None, host_lost(host), &mut self.controller);
        }
    }

    /// Runs to its end; the head is lost after so many writes, if at all.
    fn run(mut self, losses: &[(u64, Loss)]) -> Self {
        self.begin();
        self.tell();
        let mut losses = losses.iter().peekable();
        while self.write() {
            let loss = losses.next_if(|(at, _)| *at == self.written).map(|(_, loss)| *loss);
            if !matches!(loss, Some(Loss::Unwritten | Loss::Unsaid)) {
                self.tell();
            }
            if let Some(loss) = loss {
                self.lose_head(loss);
                self.tell();
            }
        }
        self
    }

    fn check(&self, what: &str) {
        self.controller.audit().unwrap_or_else(|error| panic!("{what}: {error}"));
        let workers: usize = self.hosts.iter().map(|host| host.workers.len()).sum();
        assert_eq!(self.hosts[0].granted().len(), 3, "{what}: leases");
        // Of the third actor the end may come before it has a worker.
        assert!(workers == 5 || workers == 6, "{what}: {workers} workers");
        let mut effects = Vec::new();
        let mut controller: Controller =
            postcard::from_bytes(&postcard::to_allocvec(&self.controller).unwrap()).unwrap();
        let from = self.hosts[0].driver();
        let question = ToController::ListActors { request: raymesh_wire::RequestId(1) };
        controller.handle(self.now, Event::Message { from, message: question }, &mut effects);
        let listed = effects.iter().find_map(|effect| match effect {
            Effect::Send { message: FromController::Actors { actors, .. }, .. } => Some(actors),
            _ => None,
        });
        let alive: Vec<_> = listed
            .unwrap()
            .iter()
            .filter(|actor| matches!(actor.state, raymesh_wire::control::ActorState::Alive { .. }))
            .map(|actor| (actor.actor.seq, actor.name.as_str()))
            .collect();
        assert_eq!(alive, [(1, "kept"), (2, "")], "{what}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.headship.end_journal();
    }
}

#[test]
fn a_head_that_is_lost_at_any_write_is_the_same_one_when_it_is_back() {
    let whole = Cluster::new("whole").run(&[]);
    whole.check("without a loss");
    let writes = whole.written;
    assert!(writes > 20, "{writes}");
    for at in 1..=writes {
        for loss in [Loss::Unwritten, Loss::Unsaid, Loss::Said] {
            let what = format!("lost at {at}, {loss:?}");
            Cluster::new("lost").run(&[(at, loss)]).check(&what);
        }
    }
}

#[test]
fn a_head_may_be_lost_again_and_again() {
    let losses = [Loss::Unsaid, Loss::Said, Loss::Unwritten];
    let all: Vec<_> = (1..=12).map(|at| (2 * at, losses[at as usize % 3])).collect();
    let cluster = Cluster::new("again").run(&all);
    assert!(cluster.lost > 8, "{}", cluster.lost);
    cluster.check("lost again and again");
}

fn host_lost(host: HostId) -> Event {
    Event::HostLost { host, end: HostEnd::unexpected("its process has ended") }
}

#[test]
fn a_host_that_was_let_in_is_known_to_the_next_head() {
    let mut cluster = Cluster::new("known").run(&[(3, Loss::Said)]);
    assert_eq!(cluster.headship.books.hosts(), [HostId(2), HostId(3)]);
    // And no number is given twice.
    assert_eq!(cluster.headship.books.next_host(), HostId(5));
    cluster.headship.decide(cluster.now, None, host_lost(HostId(3)), &mut cluster.controller);
    cluster.hosts.truncate(1);
    cluster.lose_head(Loss::Said);
    assert_eq!(cluster.headship.books.hosts(), [HostId(2)]);
}
