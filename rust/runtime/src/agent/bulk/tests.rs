use raymesh_wire::between::PIECE;
use raymesh_wire::{Block, HostId, ProcId, RequestId};

use super::pieces::Pieces;
use super::sending::{Consignment, Job, Sending};

const LEN: u64 = 3 * PIECE + 5;

fn block(len: u64) -> Block {
    Block { home: ProcId::new(HostId(1), 0, 1), offset: 64, len }
}

fn consignment(request: u64, len: u64, behind: Option<u64>) -> Consignment {
    let count = len.div_ceil(PIECE) as u32;
    Consignment::new(RequestId(request), block(len), behind.map(RequestId), &[(0, count)]).unwrap()
}

fn next(sending: &mut Sending) -> Option<(u64, u64, u64)> {
    sending.next(|_| None).map(|Job { request, block, at }| {
        assert_eq!(block.offset, 64 + at);
        (request.0, at, block.len)
    })
}

#[test]
fn a_piece_is_filled_by_one_lane_and_once() {
    let mut pieces = Pieces::none_of(LEN);
    assert_eq!(pieces.missing(), [(0, 4)]);
    let index = pieces.claim(PIECE, PIECE as u32).unwrap();
    assert_eq!(pieces.claim(PIECE, PIECE as u32), None);
    pieces.landed(index, false);
    let index = pieces.claim(PIECE, PIECE as u32).unwrap();
    assert!(pieces.are_moving() && !pieces.has(1));
    pieces.landed(index, true);
    assert_eq!(pieces.claim(PIECE, PIECE as u32), None);
    assert_eq!(pieces.missing(), [(0, 1), (2, 2)]);
    assert!(!pieces.are_moving() && pieces.has(1) && !pieces.are_all_here());
}

#[test]
fn what_is_no_piece_of_the_object_goes_nowhere() {
    let mut pieces = Pieces::none_of(LEN);
    for (at, len) in [(1, PIECE), (0, 5), (0, PIECE + 1), (3 * PIECE, PIECE), (4 * PIECE, 5), (u64::MAX, 5)] {
        assert_eq!(pieces.claim(at, len as u32), None, "{at} {len}");
    }
    assert!(pieces.claim(3 * PIECE, 5).is_some());
}

#[test]
fn a_request_for_pieces_that_there_are_not_is_refused() {
    for wanted in [&[(0, 5)][..], &[(4, 1)], &[(u32::MAX, u32::MAX)], &[(0, 4), (0, 1)]] {
        assert!(Consignment::new(RequestId(1), block(LEN), None, wanted).is_none(), "{wanted:?}");
    }
}

#[test]
fn a_small_object_does_not_wait_behind_a_large_one() {
    let mut sending = Sending::default();
    sending.push(consignment(1, 100 * PIECE, None));
    sending.push(consignment(2, 7, None));
    assert_eq!(next(&mut sending), Some((1, 0, PIECE)));
    assert_eq!(next(&mut sending), Some((2, 0, 7)));
    assert_eq!(next(&mut sending), Some((1, PIECE, PIECE)));
}

#[test]
fn what_has_not_arrived_is_not_passed_on() {
    let (mut sending, mut pieces) = (Sending::default(), Pieces::none_of(LEN));
    sending.push(consignment(1, LEN, Some(9)));
    assert_eq!(sending.next(|_| Some(&pieces)), None);
    let index = pieces.claim(2 * PIECE, PIECE as u32).unwrap();
    assert_eq!(sending.next(|_| Some(&pieces)), None);
    pieces.landed(index, true);
    assert_eq!(sending.next(|_| Some(&pieces)).map(|job| job.at), Some(2 * PIECE));
    assert_eq!(sending.next(|_| Some(&pieces)), None);
    sending.arrived(RequestId(9));
    assert_eq!(next(&mut sending), Some((1, 0, PIECE)));
}

#[test]
fn memory_is_in_use_until_the_last_piece_has_left() {
    let mut sending = Sending::default();
    sending.push(consignment(1, 2 * PIECE, None));
    next(&mut sending);
    // Not wanted any more, and asked for again at once.
    assert_eq!(sending.cancel(|_| true), [RequestId(1)]);
    assert!(sending.uses(&block(2 * PIECE)));
    assert_eq!(next(&mut sending), None);
    sending.sent(RequestId(1));
    assert!(!sending.uses(&block(2 * PIECE)) && sending.is_empty());
}
