use proptest::prelude::*;
use raymesh_wire::HostId;

use super::*;

fn samples() -> Vec<Frame> {
    let (from, to) = (ProcId::new(HostId(1), 2, 3), ProcId::new(HostId(4), 5, 6));
    let piece = |last, bytes: &'static [u8]| Piece { from, to, last, bytes: Bytes::from_static(bytes) };
    vec![
        Frame::Data { number: 1, piece: piece(true, b"hello") },
        Frame::Data { number: u64::MAX, piece: piece(false, b"") },
        Frame::Ack { number: 7 },
        Frame::Ping { tag: 8 },
        Frame::Pong { tag: u64::MAX },
        Frame::Bye { reason: "the host is drained".to_owned() },
    ]
}

fn encoded(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| frame.put(&mut out));
    out
}

#[test]
fn frames_come_back_whatever_the_pieces_they_arrive_in() {
    let bytes = encoded(&samples());
    for step in [1, 2, 3, 7, bytes.len()] {
        let mut reader = Reader::default();
        let mut came = Vec::new();
        for part in bytes.chunks(step) {
            reader.feed(part);
            while let Some(frame) = reader.next_frame().unwrap() {
                came.push(frame);
            }
        }
        assert_eq!(came, samples());
    }
}

/// The layout is a promise to other builds of the same version.
#[test]
fn the_bytes_are_those_that_the_version_has() {
    let piece = Piece {
        from: ProcId::new(HostId(1), 0, 2),
        to: ProcId::new(HostId(3), 0, 4),
        last: true,
        bytes: Bytes::from_static(b"ab"),
    };
    let bytes = encoded(&[Frame::Data { number: 5, piece }, Frame::Ack { number: 6 }]);
    let golden: Vec<u8> = [
        &[27, 0, 0, 0, 1][..],
        &[5, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 1, 0, 0, 0],
        &[4, 0, 0, 0, 3, 0, 0, 0],
        &[1, b'a', b'b'],
        &[8, 0, 0, 0, 2, 6, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(bytes, golden);
}

#[test]
fn a_length_that_cannot_be_is_refused_before_anything_is_stored() {
    for (len, kind) in [(u32::MAX, DATA), (0, DATA), (24, DATA), (7, ACK), (9, PING), (4097, BYE), (1, 99)] {
        let mut reader = Reader::default();
        reader.feed(&len.to_le_bytes());
        reader.feed(&[kind]);
        assert!(matches!(reader.next_frame(), Err(LinkError::Garbage(_))), "{len} {kind}");
    }
}

#[test]
fn a_reason_is_cut_between_characters() {
    let frame = Frame::Bye { reason: "ä".repeat(MAX_BYE) };
    let mut reader = Reader::default();
    reader.feed(&encoded(&[frame]));
    assert!(matches!(reader.next_frame(), Ok(Some(Frame::Bye { reason })) if reason.len() == MAX_BYE));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let mut reader = Reader::default();
        reader.feed(&bytes);
        while let Ok(Some(_)) = reader.next_frame() {}
        prop_assert!(reader.buffer.capacity() <= 2 * (MAX_PIECE + 4096));
    }

    #[test]
    fn one_flipped_byte_does_no_harm(at in 0..200_usize, to in any::<u8>()) {
        let mut bytes = encoded(&samples());
        let at = at % bytes.len();
        bytes[at] = to;
        let mut reader = Reader::default();
        reader.feed(&bytes);
        while let Ok(Some(_)) = reader.next_frame() {}
    }
}
