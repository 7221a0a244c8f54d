//! Where demands want to run: strategies, labels, bundles; and what becomes of wishes that cannot come true.

use raymesh_wire::placement::{Affinity, InGroup, Selector, Strategy, Wish};
use raymesh_wire::{ErrorKind, ErrorValue, FromController, GroupId, HostId};

use super::hosts::Host;
use super::queue::{ClassId, Waiter};
use super::shapes::{Shape, ShapeId};
use super::spots::Spot;
use super::{Controller, Effects, send, text};

const GONE: &str = "The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is \
    infeasible, and soft=False was specified.";

impl Controller {
    /// How many hosts could ever serve demands with this wish. Bundles are not counted: a group may yet come.
    pub(super) fn feasible(&self, need: ShapeId, wish: Option<&Wish>) -> u32 {
        let need = self.shapes.get(need);
        match wish {
            None => self.hosts.could_fit(need, |_, _| true),
            Some(wish) if wish.group().is_some() => 1,
            Some(wish) if let Some(only) = self.only_host(need, wish) => {
                let will_do = |host: &Host| host.could_fit(need) && self.will_do(only, host, need, wish);
                self.hosts.get(only).is_some_and(will_do).into()
            }
            Some(wish) => self.hosts.could_fit(need, |id, host| self.will_do(id, host, need, wish)),
        }
    }

    /// Whether the wish allows a host, whatever is free there.
    pub(super) fn will_do(&self, id: HostId, host: &Host, need: &Shape, wish: &Wish) -> bool {
        let suits = wish.selectors.is_empty() || wish.selectors.iter().any(|it| it.matches(&host.labels));
        suits
            && match &wish.strategy {
                Strategy::Default | Strategy::Spread | Strategy::Group(_) => true,
                Strategy::Labels { hard, .. } => hard.matches(&host.labels),
                Strategy::Host(affinity) => match self.target(*affinity, need) {
                    Some(target) => target == id || affinity.spill,
                    None => affinity.soft,
                },
            }
    }

    /// The only host that the wish allows, if it is so: there may be as many such wishes as hosts, and not all hosts
    /// are gone through for each.
    fn only_host(&self, need: &Shape, wish: &Wish) -> Option<HostId> {
        let Strategy::Host(affinity) = wish.strategy else { return None };
        let only = self.target(affinity, need).or(affinity.host.filter(|_| !affinity.soft))?;
        (!affinity.spill).then_some(only)
    }

    /// The host that is meant, if it is there and could hold it.
    fn target(&self, affinity: Affinity, need: &Shape) -> Option<HostId> {
        let host = affinity.host?;
        let state = self.hosts.get(host)?;
        (state.could_fit(need) && !(affinity.soft && state.draining.is_some())).then_some(host)
    }

    /// A place for the class now; `urgent`: also with what is kept free for another. On `near` whatever its load,
    /// else on `prefer` among equals.
    pub(super) fn find_spot(
        &self,
        class: ClassId,
        (prefer, near): (HostId, Option<HostId>),
        urgent: bool,
    ) -> Option<Spot> {
        let state = self.queue.get(class);
        let need = self.shapes.get(state.need);
        if let Some(near) = near.filter(|near| self.hosts.may_come_near(*near, need))
            && let Some(spot) = self.fits(near, class, urgent)
        {
            return Some(spot);
        }
        let fits = |id| self.fits(id, class, urgent).is_some();
        let Some(wish) = &state.wish else {
            return self.hosts.pick(need, prefer, |id, _| fits(id)).map(Spot::on);
        };
        if let Some(place) = wish.group() {
            return self.find_bundle_spot(class, place, prefer, urgent);
        }
        let any = Selector::default();
        let selectors = if wish.selectors.is_empty() { std::slice::from_ref(&any) } else { &wish.selectors };
        selectors
            .iter()
            .find_map(|selector| {
                let suits = |id, host: &Host| selector.matches(&host.labels) && fits(id);
                match &wish.strategy {
                    Strategy::Spread => self.hosts.next_after(state.spread_at, need, suits),
                    Strategy::Labels { soft, .. } => {
                        let rather = |id, host: &Host| soft.matches(&host.labels) && suits(id, host);
                        let found = self.hosts.pick(need, prefer, rather);
                        found.or_else(|| self.hosts.pick(need, prefer, suits))
                    }
                    Strategy::Host(affinity) => match self.target(*affinity, need) {
                        Some(target) if self.hosts.get(target).is_some_and(|host| suits(target, host)) => {
                            Some(target)
                        }
                        Some(_) if !affinity.spill => None,
                        _ => self.hosts.pick(need, prefer, suits),
                    },
                    Strategy::Default | Strategy::Group(_) => self.hosts.pick(need, prefer, suits),
                }
            })
            .map(Spot::on)
    }

    fn find_bundle_spot(&self, class: ClassId, place: InGroup, prefer: HostId, urgent: bool) -> Option<Spot> {
        let hosts = &self.groups.get(place.group)?.record.hosts;
        let wanted = |index: usize| place.index.is_none_or(|only| only as usize == index);
        let lie = hosts.iter().enumerate().filter(|(index, _)| wanted(*index)).filter_map(|(_, host)| *host);
        let near = lie.clone().filter(|host| *host == prefer).take(1);
        near.chain(lie).find_map(|host| self.fits(host, class, urgent))
    }

    /// Where on `host` the class fits now, if its wish allows that.
    pub(super) fn wished_spot(&self, id: HostId, host: &Host, class: ClassId) -> Option<Spot> {
        let state = self.queue.get(class);
        let need = self.shapes.get(state.need);
        let Some(wish) = &state.wish else { return host.fits(need).then(|| Spot::on(id)) };
        if let Some(place) = wish.group() {
            return self.bundle_on(id, place, need).filter(|_| self.will_do(id, host, need, wish));
        }
        if !host.fits(need) || !self.will_do(id, host, need, wish) {
            return None;
        }
        if let Strategy::Host(affinity) = wish.strategy
            && let Some(target) = self.target(affinity, need).filter(|target| *target != id)
            && self.hosts.get(target).is_some_and(|host| host.fits(need))
        {
            return None;
        }
        Some(Spot::on(id))
    }

    fn bundle_on(&self, host: HostId, place: InGroup, need: &Shape) -> Option<Spot> {
        let group = self.groups.get(place.group)?;
        let wanted = |index: usize| place.index.is_none_or(|only| only as usize == index);
        let lie = group.record.hosts.iter().zip(&group.bundles).enumerate();
        let mut lie = lie.filter(|(index, (at, _))| wanted(*index) && **at == Some(host));
        lie.find_map(|(_, (_, bundle))| {
            let bundle = (*bundle)?;
            self.bundles.get(bundle)?.fits(need).then_some(Spot { host, bundle: Some(bundle) })
        })
    }

    /// Why nothing of the class can ever be placed; also why not now, if it does not want to wait.
    pub(super) fn gives_up(&self, class: ClassId) -> Option<ErrorValue> {
        let state = self.queue.get(class);
        let (task, need) = (state.is_task, self.shapes.get(state.need));
        let error = |of_task, of_actor, text: &str| {
            Some(ErrorValue::text(if task { of_task } else { of_actor }, text))
        };
        match state.wish.as_ref()?.strategy {
            Strategy::Host(affinity) => {
                let hopeless = !affinity.soft && self.target(affinity, need).is_none();
                let (of_task, of_actor) = (ErrorKind::Unschedulable, ErrorKind::ActorUnschedulable);
                if hopeless || affinity.fail { error(of_task, of_actor, GONE) } else { None }
            }
            Strategy::Group(place) => match self.groups.get(place.group) {
                None if self.group_may_come(place.group) => None,
                None => {
                    let text = "The placement group has been removed.";
                    error(ErrorKind::GroupRemoved, ErrorKind::ActorGroupRemoved, text)
                }
                Some(group) => {
                    let mut bundles = group
                        .record
                        .spec
                        .bundles
                        .iter()
                        .enumerate()
                        .filter(|(index, _)| place.index.is_none_or(|only| only as usize == *index));
                    if bundles.any(|(_, bundle)| bundle.resources.covers(&need.set)) {
                        return None;
                    }
                    let text = format!(
                        "the resource request {} cannot fit into any bundles for the placement group.",
                        text::resources(&need.set)
                    );
                    error(ErrorKind::Unschedulable, ErrorKind::ActorUnschedulable, &text)
                }
            },
            _ => None,
        }
    }

    /// Why demands that want more than resources wait; none: the resources are all there is to say.
    pub(super) fn wish_text(&self, class: ClassId) -> Option<String> {
        let state = self.queue.get(class);
        let asked = text::resources(&self.shapes.get(state.need).set);
        let wish = state.wish.as_deref()?;
        let Some(place) = wish.group() else {
            let hosts = match &wish.strategy {
                Strategy::Host(_) => "the host that was asked for",
                _ => "hosts with the labels that were asked for",
            };
            return (state.feasible == 0).then(|| format!("{asked} asked for, but {hosts} cannot hold it"));
        };
        let bundle = match place.index {
            Some(index) => format!("bundle {index}"),
            None => "any bundle".to_owned(),
        };
        let Some(group) = self.groups.get(place.group) else {
            return Some(format!("{asked} asked for of a placement group that is not known yet"));
        };
        Some(match &group.told {
            Some(why) => format!("{asked} asked for of {bundle}: {why}"),
            None if group.wait.is_some() => {
                format!("{asked} asked for of {bundle} of a placement group that has no place yet")
            }
            None => format!("{asked} asked for of {bundle} of a placement group, where that is not free"),
        })
    }

    /// Ends the waits of all of a class.
    pub(super) fn fail_waiters(&mut self, class: ClassId, error: &ErrorValue, effects: &mut Effects) {
        let waiting: Vec<_> = self.queue.get(class).waiting.iter().map(|(_, waiter)| *waiter).collect();
        for waiter in waiting {
            match waiter {
                Waiter::Task(caller, key) => {
                    let Some(proc) = self.procs.get_mut(caller) else { continue };
                    if let Some(demand) = proc.demands.get_mut(&key) {
                        demand.unserved = 0;
                    }
                    self.requeue(caller, key, false);
                    send(effects, caller, FromController::Unschedulable { key, error: error.clone() });
                }
                Waiter::Actor(actor) => self.end_for_good(actor, error.clone(), effects),
            }
        }
    }

    /// The group will not be any more: whoever waits for a place in it waits in vain.
    pub(super) fn fail_waiters_of(&mut self, group: GroupId, effects: &mut Effects) {
        for class in self.queue.classes_of(group) {
            if let Some(error) = self.gives_up(class) {
                self.fail_waiters(class, &error, effects);
            }
        }
    }

    /// The group is known from now on: demands that it could never serve are told.
    pub(super) fn group_is_known(&mut self, group: GroupId, effects: &mut Effects) {
        self.fail_waiters_of(group, effects);
    }

    /// Hosts came or went: wishes are looked at anew.
    pub(super) fn review_wishes(&mut self, effects: &mut Effects) {
        for class in self.queue.classes() {
            let state = self.queue.get(class);
            let Some(wish) = state.wish.clone() else { continue };
            let (before, need) = (state.feasible, state.need);
            let feasible = self.feasible(need, Some(&wish));
            let state = self.queue.get_mut(class);
            state.feasible = feasible;
            state.reason = None;
            // Newcomers once more: they are placed, fail, or are set aside again.
            self.queue.set_stuck(class, false);
            if feasible == 0 && before > 0 {
                self.tell_all(class, effects);
            }
        }
    }
}
