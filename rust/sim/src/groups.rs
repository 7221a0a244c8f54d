//! Placement groups, and where user code wants things to run.
//!
//! Main programs make groups; only they can see to it that nothing waits for ever for a place in one: before a
//! main program waits, it removes its groups.

use raymesh_wire::placement::{
    Affinity, BundleSpec, GroupSpec, GroupStrategy, LabelIs, LabelRule, Selector, Strategy,
};
use raymesh_wire::{HostId, InGroup, Message, ProcId, Quantity, ResourceSet, ToController, Wish};

use crate::program::Frame;
use crate::world::World;

impl World {
    pub fn make_group(&mut self, id: ProcId, frame: &mut Frame) {
        let Some(job) = self.procs.get(&id).map(|node| node.job) else { return };
        let strategies = [
            GroupStrategy::Pack,
            GroupStrategy::Spread,
            GroupStrategy::StrictPack,
            GroupStrategy::StrictSpread,
        ];
        let strategy = frame.rng.pick(&strategies).copied().unwrap_or_default();
        let bundles: Vec<_> = (0..=frame.rng.below(3)).map(|_| self.bundle(frame)).collect();
        let spec = |group| GroupSpec {
            group,
            job,
            name: String::new(),
            namespace: String::new(),
            detached: false,
            strategy,
            bundles: bundles.clone(),
            near: None,
            same: if job.0.is_multiple_of(2) { "zone".to_owned() } else { String::new() },
        };
        let awaits = frame.rng.one_in(2);
        let made = self.with_process(id, |process, _, effects| {
            let group = process.next_group();
            process.create_group(spec(group), effects);
            (group, awaits.then(|| process.await_group(group, bytes::Bytes::new(), effects).id()))
        });
        let Some((group, awaited)) = made else { return };
        self.stats.groups += 1;
        frame.groups.push((group, bundles.into_iter().map(|bundle| bundle.resources).collect()));
        self.took(id, frame, awaited.into_iter(), false);
    }

    fn bundle(&mut self, frame: &mut Frame) -> BundleSpec {
        let mut resources = ResourceSet::new();
        resources.set("CPU", Quantity(Quantity::SCALE * (1 + frame.rng.below(2) as u64)));
        if frame.rng.one_in(3) {
            resources.set("GPU", Quantity(Quantity::SCALE / 2 * (1 + frame.rng.below(2) as u64)));
        }
        let selector = if frame.rng.one_in(4) { zone(frame) } else { Selector::default() };
        BundleSpec { resources, selector }
    }

    /// Where the next task or actor is to run; if that is in a bundle, some resources that it has.
    pub fn wish(&mut self, frame: &mut Frame) -> (Wish, Option<ResourceSet>) {
        let wish = |strategy| (Wish { strategy, selectors: Vec::new() }, None);
        match frame.rng.below(12) {
            0 => wish(Strategy::Spread),
            1 => {
                let host = Some(HostId(frame.rng.below(5) as u32)).filter(|host| host.0 < 4);
                let (soft, other) = (frame.rng.one_in(2), frame.rng.one_in(2));
                wish(Strategy::Host(Affinity { host, soft, spill: soft && other, fail: !soft && other }))
            }
            2 => {
                let both = [Selector::default(), zone(frame)];
                let hard = frame.rng.pick(&both).cloned().unwrap_or_default();
                // Hosts go; what may be waited for needs one that stays.
                wish(Strategy::Labels { hard: Selector::default(), soft: hard })
            }
            3..=7 => {
                let Some((group, bundles)) = frame.rng.pick(&frame.groups).cloned() else {
                    return wish(Strategy::Default);
                };
                let index = frame.rng.below(bundles.len());
                let resources = if frame.rng.one_in(6) { ResourceSet::new() } else { bundles[index].clone() };
                let index = frame.rng.one_in(2).then_some(index as u32);
                let capture = frame.rng.one_in(2);
                let (wish, _) = wish(Strategy::Group(InGroup { group, index, capture }));
                (wish, Some(resources))
            }
            _ => wish(Strategy::Default),
        }
    }

    pub fn remove_a_group(&mut self, id: ProcId, frame: &mut Frame) {
        if !frame.groups.is_empty() {
            let at = frame.rng.below(frame.groups.len());
            let (group, _) = frame.groups.swap_remove(at);
            let message = Message::ToController(ToController::RemoveGroup { group });
            self.send_message(id, ProcId::default(), message);
        }
    }

    pub fn remove_groups(&mut self, id: ProcId, frame: &mut Frame) {
        while !frame.groups.is_empty() {
            self.remove_a_group(id, frame);
        }
    }

    /// All groups are gone, and what they held.
    pub fn check_groups(&self) -> Result<(), String> {
        match self.controller.groups_remain() {
            (0, 0) => Ok(()),
            remain => Err(format!("placement groups and bundles remain: {remain:?}")),
        }
    }
}

fn zone(frame: &mut Frame) -> Selector {
    let value = ["a", "b"][frame.rng.below(2)].to_owned();
    Selector(vec![LabelRule { key: "zone".to_owned(), is: LabelIs::In(vec![value]) }])
}
