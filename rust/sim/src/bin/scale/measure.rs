//! One size: a cluster is built, used, hurt and saved, and each step is counted and timed.

use std::sync::LazyLock;
use std::time::Instant;

use raymesh_core::controller::Controller;
use raymesh_sim::fleet::{Fleet, Tally, cpu};
use raymesh_wire::control::DeathCause;
use raymesh_wire::placement::{
    Affinity, BundleSpec, GroupSpec, GroupStrategy, LabelIs, LabelRule, Selector, Strategy, Wish,
};
use raymesh_wire::{GroupId, HostId, JobId, ProcId, ToController};

/// Workers of each host.
pub const WORKERS: u32 = 10;
/// Hosts for each driver.
const PER_DRIVER: u32 = 100;
/// So often is each kind of lease taken and returned.
const TURNS: u32 = 20_000;
/// The same for groups.
const GROUPS: u32 = 100;
/// The number of the first host; there is none with the number 0.
const FIRST: u32 = 1;
/// The mailbox of a driver on its host.
const DRIVER: u32 = 1_000;

/// What was found at one size, in order.
#[derive(Debug, Default)]
pub struct Row {
    pub hosts: u32,
    first: bool,
    pub figures: Vec<(&'static str, f64)>,
}

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn clock() -> u64 {
    BEGAN.elapsed().as_nanos() as u64
}

/// Memory of this process, in bytes.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}

impl Row {
    /// `first`: this process has measured nothing before, so that what it takes is new memory.
    pub fn measure(hosts: u32, first: bool) -> Self {
        let mut row = Self { hosts, first, figures: Vec::new() };
        let mut fleet = Fleet::new(clock);
        let drivers = row.build(&mut fleet);
        row.leases(&mut fleet, &drivers);
        row.wishes(&mut fleet, drivers[0]);
        row.groups(&mut fleet, drivers[0]);
        row.full(&mut fleet, &drivers);
        row.journal(&fleet);
        row.deaths(&mut fleet, &drivers);
        row
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(it, _)| *it == name).map(|(_, value)| *value)
    }

    fn add(&mut self, name: &'static str, value: f64) {
        self.figures.push((name, value));
    }

    fn workers(&self) -> f64 {
        f64::from(self.hosts * WORKERS)
    }

    fn build(&mut self, fleet: &mut Fleet) -> Vec<ProcId> {
        let all = FIRST..FIRST + self.hosts;
        let (empty, before) = (resident(), fleet.tally);
        for host in all.clone() {
            fleet.join(HostId(host));
        }
        let (bare, joined) = (resident(), fleet.tally);
        for host in all.clone() {
            for slot in 1..=WORKERS {
                fleet.start(HostId(host), slot, false);
            }
        }
        let (full, started) = (resident(), fleet.tally);
        self.add("a host joins, ns", each(joined.since(before).spent, self.hosts));
        self.add("a worker starts, ns", each(started.since(joined).spent, self.hosts * WORKERS));
        if self.first {
            self.add("memory of a host, bytes", (bare - empty) / f64::from(self.hosts));
            self.add("memory of a worker, bytes", (full - bare) / self.workers());
        }
        all.step_by(PER_DRIVER as usize).map(|host| fleet.start(HostId(host), DRIVER, true)).collect()
    }

    /// One lease after the other, on a cluster that is half full.
    fn leases(&mut self, fleet: &mut Fleet, drivers: &[ProcId]) {
        let (before, held) = (fleet.tally, self.hosts * WORKERS / 2);
        let bare = resident();
        let share = held.div_ceil(drivers.len() as u32);
        for driver in drivers {
            fleet.demand(*driver, 1, share, Wish::default());
        }
        let granted = fleet.granted.len() as u32;
        self.add("a lease of many at once, ns", each(fleet.tally.since(before).spent, granted));
        if self.first {
            self.add("memory of a lease, bytes", (resident() - bare) / f64::from(granted));
        }
        let turns = self.turn(fleet, drivers[0], &Wish::default());
        let ns = each(turns.spent, TURNS);
        self.add("a lease, ns", ns);
        self.add("leases per second", 1e9 / ns);
        self.add("messages of a lease", each(turns.messages(), TURNS));
        self.add("journal of a lease, bytes", each(turns.journal, TURNS));
    }

    /// Wanted, granted, bound and returned, again and again.
    fn turn(&self, fleet: &mut Fleet, driver: ProcId, wish: &Wish) -> Tally {
        self.turns(fleet, driver, wish, TURNS)
    }

    fn turns(&self, fleet: &mut Fleet, driver: ProcId, wish: &Wish, count: u32) -> Tally {
        let before = fleet.tally;
        for _ in 0..count {
            fleet.demand(driver, 2, 1, wish.clone());
            if let Some((caller, lease)) = fleet.granted.pop_back() {
                fleet.say(caller, ToController::ReturnLease { lease });
            }
        }
        fleet.tally.since(before)
    }

    fn wishes(&mut self, fleet: &mut Fleet, driver: ProcId) {
        let target = HostId(FIRST + self.hosts - 1);
        let host = Affinity { host: Some(target), soft: false, spill: false, fail: false };
        let is = LabelIs::In(vec!["fast".to_owned()]);
        let fast = Selector(vec![LabelRule { key: "disk".to_owned(), is }]);
        let of = |strategy| Wish { strategy, selectors: Vec::new() };
        let labels = Wish { strategy: Strategy::Default, selectors: vec![fast] };
        let mut wishes = vec![
            ("a lease with SPREAD, ns", of(Strategy::Spread)),
            ("a lease on one host, ns", of(Strategy::Host(host))),
        ];
        if self.hosts >= 100 {
            wishes.push(("a lease by a label of one host in 100, ns", labels));
        }
        for (name, wish) in wishes {
            let turns = self.turn(fleet, driver, &wish);
            self.add(name, each(turns.spent, TURNS));
        }
    }

    /// Placement groups of four bundles come and go, and one with a bundle for each of many hosts.
    fn groups(&mut self, fleet: &mut Fleet, driver: ProcId) {
        let kinds = [
            ("a group of 4, PACK, ms", GroupStrategy::Pack),
            ("a group of 4, SPREAD, ms", GroupStrategy::Spread),
            ("a group of 4, STRICT_SPREAD, ms", GroupStrategy::StrictSpread),
        ];
        let mut seq = 0;
        for (name, strategy) in kinds {
            let before = fleet.tally;
            for _ in 0..GROUPS {
                seq += 1;
                group(fleet, GroupId { creator: driver, seq }, strategy, (4, 1.0));
                remove(fleet, GroupId { creator: driver, seq });
            }
            self.add(name, each(fleet.tally.since(before).spent, GROUPS) / 1e6);
        }
        for (name, cpus) in [
            ("a lease while a group waits for whole hosts, ns", 10.0),
            ("a lease while a group waits for a resource, ns", 11.0),
        ] {
            seq += 1;
            let id = GroupId { creator: driver, seq };
            // More of them than there are hosts.
            group(fleet, id, GroupStrategy::Pack, (self.hosts.min(20) + 1, cpus));
            let turns = self.turns(fleet, driver, &Wish::default(), GROUPS);
            self.add(name, each(turns.spent, GROUPS));
            remove(fleet, id);
        }
        if self.hosts >= 100 {
            let (before, id) = (fleet.tally, GroupId { creator: driver, seq: seq + 1 });
            group(fleet, id, GroupStrategy::StrictSpread, (self.hosts / 2, 1.0));
            remove(fleet, id);
            let name = "one group over half of the hosts, ms";
            self.add(name, fleet.tally.since(before).spent as f64 / 1e6);
        }
    }

    /// Everything is held, and more is wanted: each lease that comes back goes to somebody else.
    fn full(&mut self, fleet: &mut Fleet, drivers: &[ProcId]) {
        for driver in drivers {
            fleet.demand(*driver, 1, 10 * WORKERS * PER_DRIVER + TURNS, Wish::default());
        }
        let before = fleet.tally;
        for _ in 0..TURNS {
            fleet.give_back_oldest();
        }
        self.add("a lease that changes hands, ns", each(fleet.tally.since(before).spent, TURNS));
    }

    fn journal(&mut self, fleet: &Fleet) {
        let began = clock();
        let saved = postcard::to_allocvec(&fleet.controller).unwrap_or_default();
        let written = clock();
        let again = postcard::from_bytes::<Controller>(&saved);
        let read = clock();
        assert!(again.is_ok(), "the snapshot cannot be read: {:?}", again.err());
        self.add("snapshot, bytes", saved.len() as f64);
        self.add("snapshot is made, ms", (written - began) as f64 / 1e6);
        self.add("snapshot is read, ms", (read - written) as f64 / 1e6);
    }

    /// A worker dies, then a host, each until all is settled. Nobody asks for anything meanwhile.
    fn deaths(&mut self, fleet: &mut Fleet, drivers: &[ProcId]) {
        for driver in drivers {
            fleet.demand(*driver, 1, 0, Wish::default());
        }
        let (before, worker) = (fleet.tally, fleet.any_busy());
        let Some(worker) = worker else { return };
        fleet.die(worker, DeathCause::Killed.into());
        let told = fleet.tally.since(before);
        fleet.settle();
        let all = fleet.tally.since(before);
        self.add("death of a worker: messages at once", told.messages() as f64);
        self.add("death of a worker: messages until it is settled", all.messages() as f64);
        self.add("death of a worker: controller, ms", all.spent as f64 / 1e6);
        self.add("death of a worker: journal, bytes", all.journal as f64);
        if self.hosts < 10 {
            return;
        }
        let before = fleet.tally;
        // There is no driver on it.
        fleet.lose(HostId(FIRST + self.hosts / 2 + 1));
        let told = fleet.tally.since(before);
        fleet.settle();
        let all = fleet.tally.since(before);
        self.add("death of a host: messages at once", told.messages() as f64);
        self.add("death of a host: controller at once, ms", told.spent as f64 / 1e6);
        self.add("death of a host: messages until it is settled", all.messages() as f64);
        self.add("death of a host: controller, ms", all.spent as f64 / 1e6);
    }
}

fn each(all: u64, count: u32) -> f64 {
    all as f64 / f64::from(count.max(1))
}

/// A placement group of so many bundles, with so many CPUs each, is created.
fn group(fleet: &mut Fleet, id: GroupId, strategy: GroupStrategy, (bundles, cpus): (u32, f64)) {
    let bundle = BundleSpec { resources: cpu(cpus), selector: Selector::default() };
    let spec = GroupSpec {
        group: id,
        job: JobId(1),
        name: String::new(),
        namespace: String::new(),
        detached: false,
        strategy,
        bundles: vec![bundle; bundles as usize],
        near: None,
        same: String::new(),
    };
    fleet.say(id.creator, ToController::CreateGroup { spec: Box::new(spec) });
}

fn remove(fleet: &mut Fleet, group: GroupId) {
    fleet.say(group.creator, ToController::RemoveGroup { group });
}
