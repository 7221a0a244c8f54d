use proptest::prelude::*;

use super::*;

fn proc(slot: u32) -> ProcId {
    ProcId::new(raymesh_wire::HostId(1), 0, slot)
}

/// Gives `count` pieces of `from` to `to`; what came out.
fn carry(from: &mut Session, to: &mut Session, count: usize) -> Vec<Message> {
    let mut out = Vec::new();
    for _ in 0..count {
        let Some((number, piece)) = from.next_piece() else { break };
        let piece = piece.clone();
        out.extend(to.arrived(number, piece).unwrap());
    }
    out
}

#[test]
fn a_large_message_goes_in_pieces_and_comes_whole() {
    let (mut a, mut b) = (Session::default(), Session::default());
    let large = Bytes::from(vec![7; 3 * MAX_PIECE + 1]);
    a.push(proc(1), proc(2), large.clone());
    a.push(proc(1), proc(2), Bytes::from_static(b"small"));
    let came = carry(&mut a, &mut b, 100);
    assert_eq!(came.len(), 2);
    assert_eq!(came[0].bytes, large);
    assert_eq!(came[1].bytes, Bytes::from_static(b"small"));
    a.acknowledged(b.take_ack()).unwrap();
    assert!(a.is_idle());
    assert_eq!(a.kept_bytes(), 0);
}

#[test]
fn an_empty_message_arrives() {
    let (mut a, mut b) = (Session::default(), Session::default());
    a.push(proc(1), proc(2), Bytes::new());
    assert_eq!(carry(&mut a, &mut b, 1).len(), 1);
}

#[test]
fn a_message_cut_in_the_middle_is_finished_on_the_next_connection() {
    let (mut a, mut b) = (Session::default(), Session::default());
    let large = Bytes::from((0..3 * MAX_PIECE).map(|n| n as u8).collect::<Vec<_>>());
    a.push(proc(1), proc(2), large.clone());
    assert!(carry(&mut a, &mut b, 2).is_empty());
    // The third was sent and lost.
    a.next_piece();
    a.resume(b.received()).unwrap();
    assert_eq!(carry(&mut a, &mut b, 10)[0].bytes, large);
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_is_refused() {
    let mut session = Session::default();
    session.push(proc(1), proc(2), Bytes::from_static(b"x"));
    assert!(matches!(session.acknowledged(1), Err(LinkError::Garbage(_))));
}

#[test]
fn an_end_that_knows_more_or_less_than_it_can_is_of_another_session() {
    let (mut a, mut b) = (Session::default(), Session::default());
    for _ in 0..3 {
        a.push(proc(1), proc(2), Bytes::from_static(b"x"));
    }
    carry(&mut a, &mut b, 3);
    a.acknowledged(2).unwrap();
    assert!(matches!(a.resume(1), Err(LinkError::Gap)));
    assert!(matches!(a.resume(4), Err(LinkError::Gap)));
    a.resume(3).unwrap();
    assert!(a.is_idle());
}

#[test]
fn a_hole_in_the_numbers_is_no_message() {
    let mut session = Session::default();
    let piece = Piece { from: proc(1), to: proc(2), last: true, bytes: Bytes::new() };
    assert!(matches!(session.arrived(2, piece), Err(LinkError::Gap)));
}

#[test]
fn a_slow_peer_stops_the_feed_and_not_the_memory() {
    let (mut a, mut b) = (Session::default(), Session::default());
    let mut pushed = 0;
    while a.has_room() {
        a.push(proc(1), proc(2), Bytes::from(vec![0; 1 << 20]));
        pushed += 1;
        assert!(pushed <= 65, "there is a bound");
    }
    carry(&mut a, &mut b, usize::MAX);
    assert!(b.owes_ack());
    a.acknowledged(b.take_ack()).unwrap();
    assert!(a.has_room());
}

#[derive(Clone, Debug)]
enum Step {
    Push(bool, usize),
    Carry(bool, usize),
    Ack(bool),
    /// So many pieces are on their way and lost in either direction.
    Cut(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop_oneof![0..64_usize, MAX_PIECE - 1..MAX_PIECE + 2, 2 * MAX_PIECE..3 * MAX_PIECE];
    prop_oneof![
        (any::<bool>(), sizes).prop_map(|(a, size)| Step::Push(a, size)),
        (any::<bool>(), 0..6_usize).prop_map(|(a, count)| Step::Carry(a, count)),
        any::<bool>().prop_map(Step::Ack),
        (0..4_usize, 0..4_usize).prop_map(|(a, b)| Step::Cut(a, b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever breaks in between: each message once and in order, in both directions, and nothing is kept
    /// at the end.
    #[test]
    fn nothing_is_lost_doubled_or_reordered(steps in prop::collection::vec(step(), 1..80)) {
        let mut ends = [Session::default(), Session::default()];
        let mut sent: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        let mut came: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        let mut next = 0_usize;
        let both = |ends: &mut [Session; 2], by: usize, count: usize, came: &mut [Vec<usize>; 2]| {
            let [a, b] = ends;
            let (from, to) = if by == 0 { (a, b) } else { (b, a) };
            for message in carry(from, to, count) {
                assert!(message.bytes.iter().all(|byte| *byte == message.from.slot() as u8));
                came[by].push(message.from.incarnation() as usize);
            }
        };
        for step in steps {
            match step {
                Step::Push(a, size) => {
                    let by = usize::from(a);
                    let from = ProcId::new(raymesh_wire::HostId(1), next as u32, (next % 200) as u32);
                    ends[by].push(from, proc(9), Bytes::from(vec![(next % 200) as u8; size]));
                    sent[by].push(next);
                    next += 1;
                }
                Step::Carry(a, count) => both(&mut ends, usize::from(a), count, &mut came),
                Step::Ack(a) => {
                    let number = ends[1 - usize::from(a)].take_ack();
                    ends[usize::from(a)].acknowledged(number).unwrap();
                }
                Step::Cut(a, b) => {
                    for (by, lost) in [(0, a), (1, b)] {
                        for _ in 0..lost {
                            ends[by].next_piece();
                        }
                    }
                    let heard = [ends[0].received(), ends[1].received()];
                    ends[0].resume(heard[1]).unwrap();
                    ends[1].resume(heard[0]).unwrap();
                }
            }
        }
        let heard = [ends[0].received(), ends[1].received()];
        ends[0].resume(heard[1]).unwrap();
        ends[1].resume(heard[0]).unwrap();
        for by in [0, 1] {
            both(&mut ends, by, usize::MAX, &mut came);
            let number = ends[1 - by].take_ack();
            ends[by].acknowledged(number).unwrap();
        }
        prop_assert_eq!(sent, came);
        prop_assert!(ends.iter().all(|end| end.is_idle() && end.kept_bytes() == 0));
    }
}
