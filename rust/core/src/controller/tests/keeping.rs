//! Placement groups that smaller demands would overtake for ever, and what is kept for them.

use raymesh_wire::GroupState;

use super::*;

const TWO: &[(&str, f64)] = &[("CPU", 2.0)];

/// Hosts of two CPUs that are busy with tasks of one CPU, of which there is no end.
struct Busy {
    world: World,
    running: Vec<Bind>,
    created: Vec<u32>,
}

impl Busy {
    fn new(hosts: u32) -> Self {
        let mut world = World::new(TWO);
        (1..hosts).for_each(|host| world.join(host, TWO));
        let running = world.demand(driver(), 1, &cpu(1.0), 10_000);
        Self { world, running, created: Vec::new() }
    }

    fn ask(&mut self, spec: GroupSpec) {
        self.world.say(driver(), ToController::CreateGroup { spec: Box::new(spec) });
        self.note();
    }

    fn note(&mut self) {
        self.running.extend(self.world.binds());
        for message in self.world.told(driver()) {
            if let FromController::GroupState { group, state: GroupState::Created, .. } = message {
                self.created.push(group.seq);
            }
        }
        self.world.controller.audit().unwrap();
    }

    /// A tenth of a second passes, in which the oldest of each so many tasks end.
    fn go_on(&mut self, ending: usize) {
        self.world.tick(SECOND / 10);
        self.note();
        for _ in 0..ending.min(self.running.len()) {
            let oldest = self.running.remove(0);
            self.world.give_back(&oldest);
            self.note();
        }
    }
}

#[test]
fn a_group_is_not_overtaken_for_ever_by_small_tasks() {
    let mut busy = Busy::new(3);
    busy.ask(group(1, GroupStrategy::StrictSpread, &[TWO, TWO]));
    for _ in 0..100 {
        busy.go_on(1);
        if !busy.created.is_empty() {
            assert!(!busy.running.is_empty(), "the rest of the cluster goes on");
            return;
        }
    }
    panic!("the group starves");
}

/// Each wants all hosts: half of them for either would never do.
#[test]
fn two_groups_that_want_the_same_hosts_do_not_wait_for_each_other() {
    let mut busy = Busy::new(2);
    for seq in 1..=2 {
        busy.ask(group(seq, GroupStrategy::StrictSpread, &[TWO, TWO]));
    }
    for _ in 0..400 {
        busy.go_on(1);
        for seq in std::mem::take(&mut busy.created) {
            busy.world.say(driver(), ToController::RemoveGroup { group: GroupId { creator: driver(), seq } });
            busy.note();
            if busy.world.controller.groups_remain().0 == 0 {
                return;
            }
        }
    }
    panic!("{} groups starve", busy.world.controller.groups_remain().0);
}

#[test]
fn nothing_is_kept_for_a_group_that_no_hosts_could_hold() {
    let mut busy = Busy::new(2);
    busy.ask(group(1, GroupStrategy::StrictSpread, &[TWO, TWO, TWO]));
    for _ in 0..50 {
        busy.go_on(1);
        assert_eq!(busy.running.len(), 4, "a CPU idles");
    }
}

/// Room that never comes free: an actor is there and stays. At most half of the time is lost, of that host only.
#[test]
fn a_group_whose_room_stays_taken_keeps_hosts_idle_for_half_of_the_time_at_most() {
    let mut world = World::new(TWO);
    world.join(1, TWO);
    let actors = [actor(driver(), 1), actor(driver(), 2)];
    for (spec, host) in actors.into_iter().zip(0..) {
        let affinity = raymesh_wire::placement::Affinity {
            host: Some(HostId(host)),
            soft: false,
            spill: false,
            fail: false,
        };
        let strategy = raymesh_wire::placement::Strategy::Host(affinity);
        let spec = ActorSpec { wish: Wish { strategy, selectors: Vec::new() }, ..spec };
        world.alive(spec, proc(host, 5));
    }
    let running = world.demand(driver(), 1, &cpu(1.0), 10_000);
    assert_eq!(running.len(), 2);
    let mut busy = Busy { world, running, created: Vec::new() };
    busy.ask(group(1, GroupStrategy::Pack, &[TWO]));
    // Six times, of one second to 32, and as many pauses.
    let (mut idle, rounds) = (0, 1_270);
    for _ in 0..rounds {
        busy.go_on(2);
        idle += 2 - busy.running.len();
    }
    assert!(busy.created.is_empty());
    assert!(idle > 0 && idle <= rounds / 2 + 5, "{idle} of {}", 2 * rounds);
}

/// What is beyond the bundles' needs is for everybody.
#[test]
fn others_get_what_is_left_beyond_what_is_kept() {
    let mut world = World::new(&[("CPU", 4.0)]);
    world.join(1, TWO);
    let small = world.demand(driver(), 1, &cpu(1.0), 6);
    world.demand(driver(), 1, &cpu(1.0), 0);
    world.say(
        driver(),
        ToController::CreateGroup { spec: Box::new(group(1, GroupStrategy::StrictSpread, &[TWO, TWO])) },
    );
    world.tick(SECOND);
    world.tick(1);
    // Three of four CPUs come free there, two are kept.
    let large: Vec<_> = small.iter().filter(|bind| bind.host == HOST).collect();
    for bind in &large[..3] {
        world.give_back(bind);
    }
    assert_eq!(world.demand(driver(), 2, &cpu(1.0), 2).len(), 1);
    world.controller.audit().unwrap();
}
