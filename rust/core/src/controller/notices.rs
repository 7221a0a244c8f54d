//! Tells who waits why: at once what can never be, after a second what takes long.

use std::collections::BTreeMap;
use std::fmt::Write;

use raymesh_wire::{FromController, ProcId, ResourceSet};

use super::demand::Notice;
use super::holds::For;
use super::queue::{ClassId, Waiter};
use super::shapes::Shape;
use super::{Controller, Effects, send, text};

/// How long a reason found for one waiter holds good for others of its class.
const FRESH: u64 = 1_000_000_000;
/// How many hosts and holders a reason names.
const NAMED: usize = 5;

impl Controller {
    pub(super) fn send_notices(&mut self, effects: &mut Effects) {
        while let Some((due, waiter)) = self.notices.first().copied()
            && due <= self.now
        {
            self.notices.pop_first();
            let now = self.now;
            let Some((class, has)) = self.waits(waiter) else { continue };
            if has == 0 {
                let never = self.queue.get(class).feasible == 0;
                let reason = self.reason(class);
                self.tell(waiter, never, reason, effects);
            }
            let Self { procs, actors, notices, .. } = self;
            if let Some(notice) = notice(procs, actors, waiter) {
                notice.again(now, waiter, notices);
            }
        }
    }

    /// The class of a waiter, and the leases it has.
    fn waits(&self, waiter: Waiter) -> Option<(ClassId, u32)> {
        match waiter {
            Waiter::Task(caller, key) => {
                let demand = self.procs.get(caller)?.demands.get(&key)?;
                demand.turn.map(|_| (demand.class, demand.leases))
            }
            Waiter::Actor(actor) => {
                let actor = self.actors.get(actor)?;
                actor.turn.map(|_| (actor.class, 0))
            }
        }
    }

    /// Tells a new waiter at once if no host could ever serve it.
    pub(super) fn tell_if_never(&mut self, waiter: Waiter, effects: &mut Effects) {
        if let Some((class, _)) = self.waits(waiter)
            && self.queue.get(class).feasible == 0
            // What cannot wait fails instead, in a moment.
            && self.gives_up(class).is_none()
        {
            let reason = self.reason(class);
            self.tell(waiter, true, reason, effects);
        }
    }

    /// Hosts came or went: whoever waits for what cannot be any more is told.
    pub(super) fn tell_all(&mut self, class: ClassId, effects: &mut Effects) {
        self.queue.get_mut(class).reason = None;
        let waiting: Vec<_> = self.queue.get(class).waiting.iter().map(|(_, waiter)| *waiter).collect();
        for waiter in waiting {
            self.tell_if_never(waiter, effects);
        }
    }

    fn tell(&mut self, waiter: Waiter, never: bool, reason: String, effects: &mut Effects) {
        let Some(notice) = notice(&mut self.procs, &mut self.actors, waiter) else { return };
        if notice.told.as_ref() == Some(&reason) {
            return;
        }
        notice.told = Some(reason.clone());
        match waiter {
            Waiter::Task(caller, key) => {
                send(effects, caller, FromController::Unplaceable { key, never, reason });
            }
            Waiter::Actor(actor) => {
                send(effects, actor.creator, FromController::ActorUnplaceable { actor, never, reason });
            }
        }
    }

    pub(super) fn reason(&mut self, class: ClassId) -> String {
        if let Some((at, reason)) = &self.queue.get(class).reason
            && self.now < at + FRESH
        {
            return reason.clone();
        }
        let state = self.queue.get(class);
        let (need, feasible) = (self.shapes.get(state.need).clone(), state.feasible);
        let asked = text::resources(&need.set);
        let reason = match (self.hosts.len(), feasible) {
            _ if let Some(text) = self.wish_text(class) => text,
            (0, _) => format!("{asked} asked for, but the cluster has no host"),
            (_, 0) => format!("{asked} asked for, but no host has that much: {}", self.largest(&need)),
            _ => {
                format!("{asked} asked for; free: {}; held by {}", self.free_text(&need), self.holders(&need))
            }
        };
        self.queue.get_mut(class).reason = Some((self.now, reason.clone()));
        reason
    }

    /// For each resource that is asked for, the most that one host has.
    fn largest(&self, need: &Shape) -> String {
        let mut out = Vec::new();
        for (name, asked) in need.set.iter() {
            let most = self.hosts.iter().map(|(_, host)| host.total.get(name)).max().unwrap_or_default();
            out.push(if most < asked {
                format!("at most {name}: {} (asked: {})", most.to_f64(), asked.to_f64())
            } else {
                format!("{name}: {}", most.to_f64())
            });
        }
        format!("the hosts have {} each", out.join(", "))
    }

    fn free_text(&mut self, need: &Shape) -> String {
        let mut out = String::new();
        let Self { hosts, shapes, .. } = self;
        let could: Vec<_> = hosts.iter().filter(|(_, host)| host.could_fit(need)).collect();
        for (_, host) in could.iter().take(NAMED) {
            let free = only(&host.available(shapes), &need.set);
            let comma = if out.is_empty() { "" } else { ", " };
            let _ = write!(
                out,
                "{comma}{} of {}",
                text::resources(&free),
                text::resources(&only(&host.total, &need.set)),
            );
            // The host that a program starts for itself need not have a name.
            if !host.name.is_empty() {
                let _ = write!(out, " on {}", host.name);
            }
            if let Some((_, reason)) = &host.backoff {
                let _ = write!(out, " (which cannot start workers: {reason})");
            }
        }
        if could.len() > NAMED {
            let _ = write!(out, " and so on ({} hosts)", could.len());
        }
        out
    }

    /// Who holds most of what is asked for.
    fn holders(&self, need: &Shape) -> String {
        let mut held: BTreeMap<String, (u64, u32, ResourceSet)> = BTreeMap::new();
        for (_, hold) in self.holds.iter() {
            let shape = self.shapes.get(hold.shape);
            if !shape.overlaps(need) || (hold.cpu_lent && need.amounts.len() == 1) {
                continue;
            }
            let entry = held.entry(self.holder(hold.whom)).or_default();
            entry.0 += shape.amounts.iter().map(|(_, n)| n).sum::<u64>();
            entry.1 += 1;
            entry.2.add(&only(&shape.set, &need.set));
        }
        if held.is_empty() {
            return "nobody".to_owned();
        }
        let mut held: Vec<_> = held.into_iter().collect();
        held.sort_by(|a, b| b.1.0.cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
        let more = held.len().saturating_sub(NAMED);
        let mut names: Vec<_> = held
            .iter()
            .take(NAMED)
            .map(|(name, (_, count, set))| {
                let times = if *count > 1 { format!("{count} x ") } else { String::new() };
                format!("{times}{name} {}", text::resources(set))
            })
            .collect();
        if more > 0 {
            names.push(format!("{more} others"));
        }
        names.join(", ")
    }

    fn holder(&self, whom: For) -> String {
        match whom {
            For::Task { caller, .. } => format!("task of {}", self.proc_text(caller)),
            For::Actor { actor } => match self.actors.get(actor) {
                Some(state) => {
                    let (class, name) = (&state.spec.class_name, &state.spec.name);
                    let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
                    match state.pid {
                        0 => format!("actor {class}{name} (starting)"),
                        pid => format!("actor {class}{name} (pid {pid})"),
                    }
                }
                None => "an actor that is ending".to_owned(),
            },
        }
    }

    fn proc_text(&self, proc: ProcId) -> String {
        match self.procs.get(proc) {
            Some(state) if state.driver => format!("driver (pid {})", state.pid),
            Some(state) => format!("worker (pid {})", state.pid),
            None => "a process that has ended".to_owned(),
        }
    }
}

/// Where the notice of a waiter is kept.
fn notice<'a>(
    procs: &'a mut super::Procs,
    actors: &'a mut super::Actors,
    waiter: Waiter,
) -> Option<&'a mut Notice> {
    match waiter {
        Waiter::Task(caller, key) => {
            procs.get_mut(caller)?.demands.get_mut(&key).map(|demand| &mut demand.notice)
        }
        Waiter::Actor(actor) => actors.get_mut(actor).map(|actor| &mut actor.notice),
    }
}

/// The part of `set` that is of the resources in `of`.
fn only(set: &ResourceSet, of: &ResourceSet) -> ResourceSet {
    of.iter().map(|(name, _)| (name, set.get(name))).collect()
}
