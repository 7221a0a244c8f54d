//! Messages in, effects out.

use bytes::Bytes;
use raymesh_core::controller;
use raymesh_core::host;
use raymesh_wire::control::{FromAgent, ToAgent, ToHost};
use raymesh_wire::{FromController, HostId, Message, ProcId, ToController, decode, encode, envelope};

use super::barriers::Word;
use super::run::{Runner, Todo};
use crate::clock::thread_ran;
use crate::process::far_arguments_of;

/// So long without the processor, and it is needed by others.
const CROWDED: u64 = 200_000;

impl Runner {
    /// Takes in all mail that is there.
    pub(super) fn drain_mail(&mut self) {
        while !self.is_congested() {
            let mut mail = Vec::new();
            let count = self.endpoint.try_drain(&mut |from, bytes| mail.push((from, bytes)));
            for (from, bytes) in mail {
                if let Some((to, message)) = envelope::open(&bytes) {
                    let for_controller = (to == ProcId::CONTROLLER).then(|| decode(message.clone()));
                    match for_controller {
                        Some(Ok(Message::ToController(ToController::Mourned { .. }))) => {
                            self.say_afterwards(Word::Of { from, bytes: message });
                        }
                        Some(Ok(Message::ToController(_))) => self.pass_up(from, message),
                        // The agent of the first host has the same address.
                        _ => self.send_far(from, to, message),
                    }
                    continue;
                }
                // A process that sends nonsense is of a broken build; there is nobody to tell.
                if let Ok(message) = decode(bytes) {
                    self.receive(from, message);
                }
            }
            if count.unwrap_or(0) == 0 {
                return;
            }
        }
    }

    pub(super) fn receive(&mut self, from: ProcId, message: Message) {
        match message {
            Message::ToController(message) if !self.stopping => {
                let event = controller::Event::Message { from, message };
                self.todo.push_back(Todo::Controller { event, via: None });
            }
            Message::ToAgent(ToAgent::Prefetch { places }) => self.prefetch(places),
            // An owner elsewhere takes a copy here for its object, whose host is gone.
            Message::ToAgent(ToAgent::Pull { request, place }) if from.host() != self.segment.host() => {
                self.pull_for_owner(from, request, place);
            }
            Message::FreeBlocks { blocks } => blocks.iter().for_each(|block| self.disown(from, block)),
            Message::FromController(FromController::Died { proc, .. }) => self.forget_user(proc),
            Message::ToAgent(message) if from.host() == self.segment.host() => self.serve(from, message),
            Message::Between(message) => self.hear_agent(from, message),
            // Messages between processes do not come here.
            _ => {}
        }
    }

    fn serve(&mut self, from: ProcId, message: ToAgent) {
        let now = self.clock.now();
        match message {
            ToAgent::Hello { pid } => {
                if let Some(worker) = self.workers.get_mut(&from) {
                    worker.greeted = Some(pid);
                    self.todo.push_back(Todo::Host(host::Event::Hello { proc: from, pid }));
                }
            }
            ToAgent::GrowHeap { request, bytes } => {
                if !self.memory.fits(bytes) {
                    self.make_room(bytes, now);
                }
                self.with_memory(|memory, say| memory.grow(from, request, bytes, now, say));
                self.tell_usage();
            }
            ToAgent::ShrinkHeap { extents } => {
                self.memory.shrink(from, &extents, now);
                self.tell_memory(now);
            }
            ToAgent::Pull { request, place } => self.pull(from, request, place),
            ToAgent::Unneeded { place } => self.unneeded(from, &place),
            ToAgent::Locate { request, place } => self.locate(from, request, place),
            // Taken in above, from whom it may come.
            ToAgent::Prefetch { .. } => {}
        }
    }

    /// Hands events to the state machines and carries out what they want, until nothing is left to do.
    pub(super) fn settle(&mut self) {
        if self.stopping {
            // Nobody decides anything any more: no worker is replaced, no actor restarted.
            self.todo.clear();
        }
        while let Some(todo) = self.todo.pop_front() {
            let now = self.clock.now();
            match todo {
                Todo::Controller { event, via } => self.decide(now, event, via),
                Todo::Host(event) => {
                    if let host::Event::FromController(ToHost::StartActor { spec, .. }) = &event {
                        // On their way while the worker is found and takes up the class.
                        let places = far_arguments_of(spec, self.segment.host());
                        if !places.is_empty() {
                            self.prefetch(places);
                        }
                    }
                    let mut effects = Vec::new();
                    self.host.handle(now, event, &mut effects);
                    self.carry_out_host(effects);
                }
            }
        }
    }

    /// Has the controller decide. On a head, what follows waits for the journal.
    fn decide(&mut self, now: u64, event: controller::Event, via: Option<(HostId, u64)>) {
        let Self { links, controller, .. } = self;
        if let Some(headship) = links.as_mut().and_then(|links| links.headship.as_mut()) {
            headship.decide(now, via, event, controller);
            return self.do_what_is_due();
        }
        let mut effects = Vec::new();
        self.controller.handle(now, event, &mut effects);
        effects.into_iter().for_each(|effect| self.carry_out_here(effect));
    }

    /// Does what the controller wants done on this host.
    pub(super) fn carry_out_here(&mut self, effect: controller::Effect) {
        match effect {
            controller::Effect::Send { to, message } => self.send(to, &Message::FromController(message)),
            controller::Effect::ToHost { message, .. } => {
                self.todo.push_back(Todo::Host(host::Event::FromController(message)));
            }
        }
    }

    pub(super) fn carry_out_host(&mut self, effects: Vec<host::Effect>) {
        for effect in effects {
            match effect {
                host::Effect::Send { to, message } => self.send(to, &Message::FromController(message)),
                host::Effect::ToController(message) => self.report(message),
                // The rest of it ends as if it had been told to by a signal.
                host::Effect::Leave => self.stopping = true,
                host::Effect::Welcomed => self.welcomed = true,
                host::Effect::Fork { proc } => self.fork(proc),
                host::Effect::Kill { proc } => self.kill(proc),
                host::Effect::Sweep { dead, except } => {
                    let now = self.clock.now();
                    self.memory.sweep(dead, &except, now);
                    self.tell_memory(now);
                }
                host::Effect::FreeBlocks { blocks } => {
                    let now = self.clock.now();
                    blocks.iter().for_each(|block| self.memory.release_block(block, now));
                    self.tell_memory(now);
                }
            }
        }
    }

    pub(super) fn send(&mut self, to: ProcId, message: &Message) {
        self.scratch.clear();
        encode(message, &mut self.scratch);
        if to.host() == self.segment.host() {
            // A receiver that is gone is buried by its own report.
            self.endpoint.send(to, &self.scratch);
        } else {
            let message = Bytes::copy_from_slice(&self.scratch);
            self.send_far(self.endpoint.me(), to, message);
        }
    }

    /// Lets `act` change who has which memory, and says what it wants said.
    pub(super) fn with_memory<R>(
        &mut self,
        act: impl FnOnce(&mut super::memory::Memory, &mut super::memory::Say<'_>) -> R,
    ) -> R {
        let Self { memory, endpoint, scratch, .. } = self;
        act(memory, &mut |to: ProcId, message: FromAgent| {
            scratch.clear();
            encode(&Message::FromAgent(message), scratch);
            endpoint.send(to, scratch);
        })
    }

    fn answer_wishes(&mut self, now: u64) {
        self.with_memory(|memory, say| memory.answer(now, say));
    }

    /// Memory has become free.
    pub(super) fn tell_memory(&mut self, now: u64) {
        self.answer_wishes(now);
        self.hope(now);
        self.tell_usage();
    }

    pub(super) fn tell_usage(&mut self) {
        let bytes = self.memory.used();
        self.todo.push_back(Todo::Host(host::Event::StoreUsed { bytes }));
    }

    /// What time does to memory.
    pub(super) fn tend_memory(&mut self, now: u64) {
        if self.stopping {
            return;
        }
        self.answer_wishes(now);
        self.tend_copies(now);
        self.tend_opening(now);
        self.memory.cool(&self.segment, now);
    }

    /// Brings in a little memory, if that takes the processor from nobody.
    pub(super) fn warm_memory(&mut self) {
        let (began, ran) = (self.clock.now(), thread_ran());
        self.memory.warm(&self.segment);
        let (took, ran) = (self.clock.now() - began, thread_ran() - ran);
        if took > 2 * ran + CROWDED {
            self.memory.rest();
        }
    }
}
