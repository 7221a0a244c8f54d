//! The agent's loop: listen, decide, act, sleep.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use raymesh_core::controller::{self, Controller};
use raymesh_core::host::{self, Host};
use raymesh_shm::{Endpoint, Segment};
use raymesh_sys::fd::eventfd_clear;
use raymesh_wire::{HostId, ProcId};

use super::bulk::Depot;
use super::copies::Copies;
use super::limits::OpenFiles;
use super::links::Links;
use super::memory::Memory;
use super::nursery::{self, Nursery, Spawn};
use super::opening::Opening;
use super::output::OutputQueue;
use super::poll::{Poller, Source, Token};
use super::pulls::Surveys;
use super::spread::Spread;
use super::streams::{Origin, Streams};
use super::workers::Worker;
use super::zygote::Zygote;
use super::{AgentConfig, StartError};
use crate::clock::Clock;

/// From the handle.
#[derive(Debug)]
pub enum Command {
    Preload(Vec<String>),
    ImportEarly(Vec<String>),
    Stop,
}

/// What the handle has made before the thread starts.
#[derive(Debug)]
pub struct Parts {
    pub config: AgentConfig,
    pub segment: Arc<Segment>,
    pub eventfd: Arc<OwnedFd>,
    pub wake: Arc<OwnedFd>,
    pub output: Arc<OutputQueue>,
    pub commands: Receiver<Command>,
    pub links: Option<Links>,
    /// As an earlier head had left it, and the time there.
    pub controller: Controller,
    pub now: u64,
}

/// Something for one of the state machines, in its turn.
#[derive(Debug)]
pub enum Todo {
    /// `via`: a word of that host, and its number.
    Controller {
        event: controller::Event,
        via: Option<(HostId, u64)>,
    },
    Host(host::Event),
}

/// All that the agent's thread owns.
#[derive(Debug)]
pub struct Runner {
    pub(super) config: AgentConfig,
    pub(super) clock: Clock,
    pub(super) segment: Arc<Segment>,
    pub(super) endpoint: Endpoint,
    pub(super) eventfd: Arc<OwnedFd>,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    pub(super) poller: Poller,
    pub(super) streams: Streams,
    /// What the streams have given and nobody has taken on yet.
    pub(super) lines: Arc<OutputQueue>,
    /// What is to be shown here.
    pub(super) output: Arc<OutputQueue>,
    pub(super) nursery: Nursery,
    /// Of each zygote: its reports, and its end.
    pub(super) zygote_tokens: BTreeMap<nursery::Key, (Token, Token)>,
    pub(super) workers: BTreeMap<ProcId, Worker>,
    /// At work on the head only.
    pub(super) controller: Controller,
    pub(super) host: Host,
    pub(super) todo: VecDeque<Todo>,
    pub(super) memory: Memory,
    /// None: the host is alone.
    pub(super) links: Option<Links>,
    pub(super) copies: Copies,
    pub(super) bulk: Arc<Depot>,
    pub(super) opening: Opening,
    pub(super) spread: Spread,
    pub(super) surveys: Surveys,
    pub(super) limits: OpenFiles,
    pub(super) scratch: Vec<u8>,
    /// The controller knows this host.
    pub(super) welcomed: bool,
    /// Told to end: workers are not replaced any more.
    pub(super) stopping: bool,
    /// Why there is no cluster any more.
    pub(super) lost: Option<String>,
}

impl Runner {
    /// Opens the mailboxes of agent and driver and starts the first zygote.
    pub fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { config, segment, eventfd, wake, output, commands, links, controller, now } = parts;
        let system = |what| StartError::system(what);
        // The program's signals are for its main thread, which may wait in a system call.
        raymesh_sys::signals::block_all();
        let host = segment.host();
        let (me, driver) = (ProcId::agent(host), Host::driver_slot(host));
        for proc in [me].into_iter().chain(config.driver.then_some(driver)) {
            segment.open_mailbox(proc).map_err(io::Error::other).map_err(system("a mailbox"))?;
        }
        let endpoint = Endpoint::new(Arc::clone(&segment), me);
        endpoint.set_agent_eventfd(eventfd.try_clone().map_err(system("an eventfd"))?);
        let mut poller = Poller::new(links.as_ref().map(|links| &links.hub)).map_err(system("an epoll"))?;
        poller.add_bell(&*eventfd, Source::Mail).map_err(system("an epoll"))?;
        poller.add(&*wake, Source::Wake).map_err(system("an epoll"))?;
        let bulk = Depot::new(Arc::clone(&segment)).map_err(system("an eventfd"))?;
        poller.add(bulk.bell(), Source::Bulk).map_err(system("an epoll"))?;
        let mut host_config = host::Config::new(host, config.host_name.clone(), config.resources.clone());
        host_config.labels.clone_from(&config.labels);
        host_config.store_capacity = segment.arena_len();
        host_config.spare = u32::try_from(config.prestart).unwrap_or(u32::MAX);
        let cores = raymesh_sys::online_cpus();
        // Without a driver here, lines go to the drivers of other hosts first.
        let lines = if config.driver { Arc::clone(&output) } else { Arc::default() };
        let mut runner = Self {
            nursery: Nursery::new(cores, config.wants_preload()),
            memory: Memory::new(segment.arena_len()),
            streams: Streams::new(Arc::clone(&lines)),
            lines,
            output,
            config,
            clock: Clock::from(now),
            segment,
            endpoint,
            eventfd,
            wake,
            commands,
            poller,
            zygote_tokens: BTreeMap::new(),
            workers: BTreeMap::new(),
            controller,
            host: Host::new(host_config),
            todo: VecDeque::new(),
            links,
            copies: Copies::new(me),
            bulk,
            opening: Opening::default(),
            spread: Spread::new(host),
            surveys: Surveys::default(),
            limits: OpenFiles::new(),
            scratch: Vec::new(),
            welcomed: false,
            stopping: false,
            lost: None,
        };
        let early = std::mem::take(&mut runner.config.early);
        runner.nursery.import_early(early);
        if !runner.config.resources.is_empty() {
            let (nursery, mut nest) = runner.nest();
            nursery.start(&mut nest).map_err(|source| {
                let program = nest.config.python.first().map(|program| program.display().to_string());
                program.map_or(StartError::NoPython, |program| StartError::Python { program, source })
            })?;
        }
        let preload = std::mem::take(&mut runner.config.preload);
        runner.nursery.preload(preload, runner.clock.now());
        runner.greet_head();
        let mut effects = Vec::new();
        runner.host.start(runner.clock.now(), &mut effects);
        runner.carry_out_host(effects);
        // What ran there may go on here.
        let formers = runner.links.as_mut().map(|links| std::mem::take(&mut links.formers));
        for host in formers.unwrap_or_default() {
            let end = raymesh_wire::status::HostEnd::unexpected("the head was started again");
            let event = controller::Event::HostLost { host, end };
            runner.todo.push_back(Todo::Controller { event, via: None });
        }
        if runner.config.driver {
            let pid = std::process::id();
            runner.todo.push_back(Todo::Host(host::Event::DriverJoined { proc: driver, pid }));
        }
        runner.settle();
        Ok(runner)
    }

    /// Works until the controller knows this host: whoever is told that it has joined finds it among the others. A
    /// driver asks the controller in its turn anyway.
    pub fn join_in(&mut self) -> Result<(), StartError> {
        while !self.welcomed && !self.stopping && !self.config.driver {
            self.turn(None);
        }
        match &self.lost {
            Some(reason) => Err(StartError::Lost { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Until told to stop, or until the cluster is lost: the reason then.
    pub fn run(&mut self) -> Option<String> {
        while !self.stopping {
            self.turn(None);
        }
        self.end();
        self.lost.take()
    }

    /// Does what is to be done now, then waits for more, not beyond `deadline`.
    pub(super) fn turn(&mut self, deadline: Option<u64>) {
        self.on_time();
        self.tend_nursery();
        self.settle();
        let now = self.clock.now();
        let next = self.next_deadline(now).into_iter().chain(deadline).min();
        let timeout = next.map(|at| Duration::from_nanos(at.saturating_sub(now)));
        // After this look, mail signals the eventfd.
        let has_mail = !self.is_congested() && self.endpoint.arm_eventfd();
        let warms = !self.stopping && self.memory.wants_warmth();
        let timeout = if has_mail || warms { Some(Duration::ZERO) } else { timeout };
        let hub = self.links.as_mut().map(|links| &mut links.hub);
        let ready = self.poller.wait(hub, timeout);
        if warms && !has_mail && ready.is_empty() {
            self.warm_memory();
        }
        self.drain_mail();
        for (source, token) in ready {
            self.listen(source, token);
        }
        self.spread_output();
        self.tend_links();
        self.settle();
    }

    fn listen(&mut self, source: Source, token: Token) {
        match source {
            // Drained in every turn.
            Source::Mail => {}
            Source::Wake => {
                eventfd_clear(&*self.wake);
                self.do_what_is_due();
                self.streams.resume(&mut self.poller);
                while let Ok(command) = self.commands.try_recv() {
                    match command {
                        Command::Preload(modules) => self.nursery.preload(modules, self.clock.now()),
                        Command::ImportEarly(modules) => self.nursery.import_early(modules),
                        Command::Stop => self.stopping = true,
                    }
                }
            }
            Source::Bulk => self.hear_bulk(),
            Source::Stream => self.read_stream(token),
            Source::Reports(key) => self.hear_zygote(key),
            Source::Worker(proc) => self.worker_ended(proc),
            Source::Zygote(key) => self.zygote_gone(key),
        }
    }

    fn read_stream(&mut self, token: Token) {
        let Self { streams, poller, nursery, .. } = self;
        streams.read(poller, token, &mut |origin: &Origin, text: &str| {
            if origin.proc.slot() == ProcId::AGENT_SLOT && !text.trim().is_empty() {
                nursery.said(text);
            }
        });
    }

    fn on_time(&mut self) {
        let now = self.clock.now();
        if self.host.next_deadline().is_some_and(|at| at <= now) {
            self.todo.push_back(Todo::Host(host::Event::Tick));
        }
        if self.hosts_controller() && self.controller.next_deadline().is_some_and(|at| at <= now) {
            self.todo.push_back(Todo::Controller { event: controller::Event::Tick, via: None });
        }
        self.tend_journal(now);
        self.tell_unease(now);
        self.tend_guide(now);
        self.bury_overdue(now);
        self.tend_memory(now);
    }

    fn next_deadline(&self, now: u64) -> Option<u64> {
        let controller = if self.hosts_controller() { self.controller.next_deadline() } else { None };
        let machines = [self.host.next_deadline(), controller];
        let journal = self.links.as_ref().and_then(|links| links.headship.as_ref()?.next_deadline());
        let others = [
            journal,
            self.next_unease(),
            self.links.as_ref().and_then(|links| links.guide.as_ref()?.next_deadline()),
            self.nursery.next_deadline(now),
            self.memory.next_deadline(),
            self.copies.next_deadline(),
            self.opening.next_deadline(),
            self.next_burial(),
        ];
        if self.stopping {
            return self.next_burial();
        }
        machines.into_iter().chain(others).flatten().min()
    }

    /// The nursery, and what it needs to start zygotes.
    pub(super) fn nest(&mut self) -> (&mut Nursery, Nest<'_>) {
        let nest = Nest {
            config: &self.config,
            segment: &self.segment,
            eventfd: &self.eventfd,
            poller: &mut self.poller,
            streams: &mut self.streams,
            tokens: &mut self.zygote_tokens,
            open_files: self.limits.original(),
        };
        (&mut self.nursery, nest)
    }
}

/// Starts zygotes.
#[derive(Debug)]
pub struct Nest<'a> {
    config: &'a AgentConfig,
    segment: &'a Segment,
    eventfd: &'a OwnedFd,
    poller: &'a mut Poller,
    streams: &'a mut Streams,
    tokens: &'a mut BTreeMap<nursery::Key, (Token, Token)>,
    open_files: u64,
}

impl Spawn for Nest<'_> {
    fn spawn(&mut self, key: nursery::Key) -> io::Result<Zygote> {
        use std::os::fd::AsFd;
        let (zygote, stderr) =
            Zygote::spawn(self.config, self.segment.fd(), self.eventfd.as_fd(), self.open_files)?;
        let origin = Origin { proc: ProcId::agent(self.segment.host()), pid: zygote.pid(), is_stderr: true };
        self.streams.add(self.poller, stderr, origin, Box::new(|| "raymesh-zygote".to_owned()))?;
        let reports = self.poller.add(zygote.control(), Source::Reports(key))?;
        let end = self.poller.add(zygote.pidfd(), Source::Zygote(key))?;
        self.tokens.insert(key, (reports, end));
        Ok(zygote)
    }
}
