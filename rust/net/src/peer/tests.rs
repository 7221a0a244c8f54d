use super::*;

const MS: Nanos = 1_000_000;
const TIMING: Timing = Timing::for_silence(2_000 * MS);

fn later() -> Peer {
    Peer::new(true, TIMING)
}

fn earlier() -> Peer {
    Peer::new(false, TIMING)
}

/// What it does until `end`, each with its time in milliseconds.
fn run(peer: &mut Peer, end: Nanos) -> Vec<(Nanos, Action)> {
    let mut done = Vec::new();
    while let Some(at) = peer.next_deadline().filter(|at| *at <= end) {
        let before = done.len();
        while let Some(action) = peer.tick(at) {
            if action == Action::Dial {
                peer.disconnected(at);
            }
            done.push((at / MS, action));
        }
        assert!(done.len() > before, "a deadline at which there is nothing to do: {peer:?}");
    }
    done
}

#[test]
fn a_host_that_nobody_wants_costs_nothing() {
    assert_eq!(later().next_deadline(), None);
    assert_eq!(later().tick(u64::MAX), None);
}

#[test]
fn the_later_one_dials_and_the_earlier_one_knocks() {
    let mut peer = later();
    peer.want(0);
    assert_eq!(peer.tick(0), Some(Action::Dial));
    assert_eq!(peer.tick(0), None);
    let mut peer = earlier();
    peer.want(0);
    assert_eq!(peer.tick(0), Some(Action::Knock));
    assert_eq!(peer.tick(0), None);
}

#[test]
fn dials_that_fail_come_less_and_less_often_and_end() {
    let mut peer = later();
    peer.want(0);
    let done = run(&mut peer, 10_000 * MS);
    let (last, dials) = done.split_last().unwrap();
    assert_eq!(*last, (10_000, Action::GiveUp { silent_for: 10_000 * MS }));
    let pauses: Vec<Nanos> = dials.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(pauses[..5], [20, 40, 80, 160, 250]);
    assert!(pauses[5..].iter().all(|pause| *pause == 250));
    assert!(peer.is_dead());
}

#[test]
fn a_knock_ends_the_pause() {
    let mut peer = later();
    peer.want(0);
    peer.tick(0);
    peer.disconnected(0);
    assert_eq!(peer.tick(MS), None);
    peer.want(MS);
    assert_eq!(peer.tick(MS), Some(Action::Dial));
}

#[test]
fn a_good_connection_that_breaks_is_made_anew_at_once() {
    let mut peer = later();
    peer.want(0);
    peer.tick(0);
    peer.connected(MS);
    peer.disconnected(5 * MS);
    assert_eq!(peer.tick(5 * MS), Some(Action::Dial));
}

#[test]
fn silence_takes_down_first_the_connection_and_then_the_host() {
    for mut peer in [later(), earlier()] {
        peer.want(0);
        peer.tick(0);
        peer.connected(0);
        let mut done = run(&mut peer, 10_000 * MS);
        done.retain(|(_, action)| *action != Action::Probe);
        let pings = done.iter().take_while(|(_, action)| *action == Action::Ping).count();
        assert_eq!(pings, 3, "every 250 ms for a second: {done:?}");
        assert_eq!(done[pings], (1_000, Action::Drop));
        assert_eq!(done.last().unwrap(), &(2_000, Action::GiveUp { silent_for: 2_000 * MS }));
    }
}

#[test]
fn who_is_heard_lives_and_who_has_just_spoken_need_not_ping() {
    let mut peer = later();
    peer.want(0);
    peer.tick(0);
    peer.connected(0);
    for n in 1..100 {
        peer.heard(n * 200 * MS);
        peer.said(n * 200 * MS);
        assert_eq!(peer.tick(n * 200 * MS), None);
    }
}

#[test]
fn the_dead_do_not_come_back() {
    let mut peer = later();
    peer.want(0);
    peer.gone();
    peer.connected(1);
    peer.want(2);
    assert!(peer.is_dead());
    assert_eq!(peer.next_deadline(), None);
}

#[test]
fn a_host_whose_system_says_that_nobody_is_there_is_dead_soon() {
    let mut peer = earlier();
    peer.want(0);
    peer.tick(0);
    peer.connected(0);
    peer.disconnected(100 * MS);
    assert_eq!(peer.tick(100 * MS), Some(Action::Probe));
    assert!(!peer.refused(100 * MS));
    assert!(!peer.refused(300 * MS));
    assert!(peer.refused(350 * MS));
    assert!(peer.is_dead());
}

#[test]
fn a_firewall_that_refuses_for_a_moment_kills_nobody() {
    let mut peer = later();
    peer.want(0);
    peer.tick(0);
    peer.connected(0);
    peer.disconnected(100 * MS);
    assert!(!peer.refused(100 * MS));
    peer.connected(300 * MS);
    peer.disconnected(400 * MS);
    assert!(!peer.refused(400 * MS));
}

#[test]
fn who_is_far_may_be_silent_for_longer() {
    let far = 400 * MS;
    for (round_trip, silence) in [(0, 2_000), (100 * MS, 2_000), (far, 6_800), (60_000 * MS, 16_400)] {
        let mut peer = later();
        peer.want(0);
        peer.tick(0);
        peer.connected(0);
        peer.measured(round_trip);
        let done = run(&mut peer, 100_000 * MS);
        let drop = done.iter().find(|(_, action)| *action == Action::Drop).unwrap();
        assert_eq!(drop.0, silence / 2);
        assert_eq!(done.last().unwrap().0, silence);
    }
}

#[test]
fn a_greeting_over_a_long_way_is_waited_for() {
    let mut peer = earlier();
    peer.want(0);
    peer.tick(0);
    let done = run(&mut peer, 9_999 * MS);
    assert!(done.iter().all(|(_, action)| *action == Action::Knock), "{done:?}");
    assert!(!peer.is_dead());
}

#[test]
fn who_was_to_come_within_a_time_and_does_not_is_dead_after_it() {
    let mut peer = earlier();
    peer.expect(50 * MS, 5_000 * MS);
    let done = run(&mut peer, 60_000 * MS);
    assert_eq!(done.last().unwrap(), &(5_050, Action::GiveUp { silent_for: 5_000 * MS }));
}
