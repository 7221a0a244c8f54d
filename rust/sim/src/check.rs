//! What must hold at all times, and at the end.

use raymesh_core::controller::{Effect, Event};
use raymesh_core::process::Lookup;
use raymesh_wire::control::{ActorInfo, ActorState, DeathCause};
use raymesh_wire::{
    Block, FromController, HostId, ObjectId, ProcId, Quantity, RequestId, ResourceSet, ToController, Value,
};

use crate::world::{BLOCK, Stored, World};

impl World {
    /// Nothing but CPU may be used twice on a host, whatever messages are on their way.
    pub fn check_host(&mut self, id: HostId) {
        let Some(node) = self.hosts.get(&id) else { return };
        let mut used = ResourceSet::new();
        let mut gpus: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
        for (resources, indices, _) in node.bound.values() {
            used.add(resources);
            let mut left = resources.get("GPU").0;
            for index in indices {
                *gpus.entry(*index).or_default() += left.min(Quantity::SCALE);
                left -= left.min(Quantity::SCALE);
            }
        }
        let over: Vec<_> =
            used.iter().filter(|(name, n)| *name != "CPU" && *n > node.total.get(name)).collect();
        let shared = gpus.values().any(|n| *n > Quantity::SCALE);
        if !over.is_empty() || shared {
            let text = format!("{id:?} is used beyond what it has: {over:?}, GPUs {gpus:?}");
            self.fail(text);
        }
    }

    /// Memory is given back: once, and nobody may be reading it.
    pub fn freed(&mut self, block: Block) {
        let Some(stored) = self.blocks.get_mut(&(block.home, block.offset)) else {
            self.fail(format!("{block:?} is freed and was never there"));
            return;
        };
        if std::mem::replace(&mut stored.freed, true) {
            self.fail(format!("{block:?} is freed twice"));
            return;
        }
        if self.links.is_zombie(block.host()) {
            return;
        }
        let reader = self.procs.iter().filter(|(id, _)| !self.links.is_zombie(id.host())).find_map(|(id, node)| {
            let held = node.frame.iter().flat_map(|frame| frame.held());
            let mut held = held.chain(node.stash.iter().map(|it| it.id));
            let reads = |object: &ObjectId| {
                matches!(node.process.lookup(*object), Lookup::Ready(Value::Stored(it)) if it == block)
            };
            held.find(reads).map(|object| (*id, object))
        });
        if let Some((id, object)) = reader {
            self.fail(format!("{block:?} is freed, but {id:?} holds {object:?}"));
        }
    }

    /// The agent frees what it had left of the memory of a dead process. That may have freed it itself before:
    /// one who is about to end may name what nobody stands for any more.
    pub fn left(&mut self, block: Block) {
        if self.blocks.get(&(block.home, block.offset)).is_none_or(|stored| !stored.freed) {
            self.freed(block);
        }
    }

    /// The agent frees the memory of a dead process.
    pub fn sweep(&mut self, dead: ProcId, except: &[Block]) {
        let of = |((home, offset), stored): (&(ProcId, u64), &Stored)| {
            let block = Block { home: *home, offset: *offset, len: BLOCK };
            (*home == dead && !stored.freed && !except.contains(&block)).then_some(block)
        };
        let blocks: Vec<_> = self.blocks.iter().filter_map(of).collect();
        blocks.into_iter().for_each(|block| self.freed(block));
    }

    /// Who waits for what, for a run that does not end.
    #[must_use]
    pub fn waiting(&self) -> String {
        let waits = self.procs.iter().filter_map(|(id, node)| {
            let frame = node.frame.as_ref()?;
            Some(format!("{id:?} waits for {:?}", frame.waiting?))
        });
        format!("{:?}; controller: {:?}", waits.collect::<Vec<_>>(), self.controller.remains())
    }

    pub fn check_drivers_done(&mut self) -> Result<(), String> {
        let stuck = self.drivers.iter().find(|id| self.procs.get(id).is_some_and(|node| !node.done));
        match stuck {
            Some(id) => Err(format!("{id:?} never gets its results: {}", self.waiting())),
            None => Ok(()),
        }
    }

    /// Nothing happens any more, all drivers have let go of everything, and live still.
    pub fn check_quiet(&mut self) -> Result<(), String> {
        let references: Vec<(ProcId, ObjectId)> = self
            .procs
            .iter()
            .flat_map(|(id, node)| {
                let held = node.frame.iter().flat_map(|frame| frame.held());
                held.chain(node.stash.iter().map(|it| it.id)).map(|object| (*id, object)).collect::<Vec<_>>()
            })
            .collect();
        for (id, object) in references {
            if let Some(owner) = self.procs.get(&object.owner)
                && matches!(owner.process.lookup(object), Lookup::Unknown)
            {
                return Err(format!("{id:?} holds {object:?}, which its owner has freed"));
            }
        }
        for (id, node) in &self.procs {
            if node.frame.is_some() {
                return Err(format!("{id:?} still runs something: {:?}", node.frame));
            }
            if node.loading.is_some() {
                return Err(format!("{id:?} never gets {:?}", node.loading));
            }
            let left = node.process.census();
            if let Some((what, count)) = left.iter().find(|(what, count)| what.contains("kept") && *count > 0)
            {
                return Err(format!("{id:?} keeps {count} {what}, and nobody wants any: {:?}", node.process));
            }
            if node.process.object_count() > 0 {
                let count = node.process.object_count();
                return Err(format!(
                    "{id:?} keeps {count} objects, and nobody wants any: {:?}",
                    node.process
                ));
            }
        }
        if let Some(block) = self.blocks.iter().find(|(_, stored)| !stored.freed && !stored.lost) {
            return Err(format!("memory {block:?} is never freed"));
        }
        if self.controller.estates_remain() != (0, false) {
            return Err(format!("the dead leave something for ever: {:?}", self.controller.estates_remain()));
        }
        self.check_promises()?;
        match self.controller.remains() {
            (0, 0, 0) => {}
            remains => return Err(format!("leases, waiters, actors remain: {remains:?}")),
        }
        self.check_groups()?;
        self.check_definitions()?;
        self.check_agreement()?;
        self.check_available()
    }

    /// Every living watcher was told the same, last.
    fn check_agreement(&mut self) -> Result<(), String> {
        let answer = self.ask(ToController::ListActors { request: RequestId(0) });
        let Some(FromController::Actors { actors, .. }) = answer else {
            return Ok(());
        };
        for ((id, actor), state) in &self.told {
            let watches = self.procs.contains_key(id) && self.watching.contains(&(*id, *actor));
            let known: Option<&ActorInfo> = actors.iter().find(|info| info.actor == *actor);
            if watches && known.is_some_and(|info| info.state != *state) {
                return Err(format!("{id:?} believes {actor:?} {state:?}, but it is {known:?}"));
            }
        }
        if let Some(info) = actors.iter().find(|info| !matches!(info.state, ActorState::Dead { .. })) {
            return Err(format!("nobody holds {info:?}"));
        }
        let mut watching = self.watching.iter().filter(|(id, _)| self.procs.contains_key(id));
        match watching.find(|key| !self.told.contains_key(key)) {
            Some((id, actor)) => Err(format!("{id:?} watches {actor:?} and was never told anything")),
            None => Ok(()),
        }
    }

    fn check_available(&mut self) -> Result<(), String> {
        let answer = self.ask(ToController::DescribeCluster { request: RequestId(0) });
        let Some(FromController::Cluster { hosts, .. }) = answer else {
            return Ok(());
        };
        for info in hosts {
            if info.alive != self.hosts.contains_key(&info.host) {
                return Err(format!("wrong about {info:?}"));
            }
            if info.available != info.total || !info.pending.is_empty() {
                return Err(format!("resources are lost: {info:?}"));
            }
        }
        Ok(())
    }

    /// Asks the controller something, in the name of a living driver.
    fn ask(&mut self, message: ToController) -> Option<FromController> {
        let from = *self.drivers.iter().find(|id| self.procs.contains_key(id))?;
        let mut effects = Vec::new();
        self.controller.inner().handle(self.now, Event::Message { from, message }, &mut effects);
        effects.into_iter().find_map(|effect| match effect {
            Effect::Send { to, message } if to == from => Some(message),
            _ => None,
        })
    }

    pub fn end_drivers(&mut self) {
        for id in self.drivers.clone() {
            self.die(id, DeathCause::Exited { code: 0 });
        }
    }

    /// The drivers are gone: workers that served them too.
    pub fn check_empty(&mut self) -> Result<(), String> {
        if let Some((id, _)) = self.procs.iter().find(|(_, node)| node.job.0 != 0) {
            return Err(format!("{id:?} has outlived its job"));
        }
        self.check_groups()?;
        match self.controller.remains() {
            (0, 0, 0) => self.check_definitions(),
            remains => Err(format!("leases, waiters, actors remain after all: {remains:?}")),
        }
    }
}
