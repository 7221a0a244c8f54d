//! What a peer that has proved itself may send on a link: frames, numbers, acknowledgements. In pieces of any size.

#![no_main]

use libfuzzer_sys::fuzz_target;
use raymesh_net::frame::{Frame, Reader};
use raymesh_net::session::Session;
use raymesh_wire::{HostId, ProcId, decode};

fuzz_target!(|input: &[u8]| {
    let Some((step, bytes)) = input.split_first() else { return };
    let mut reader = Reader::default();
    let mut session = Session::default();
    let (from, to) = (ProcId::new(HostId(1), 0, 1), ProcId::new(HostId(2), 0, 1));
    for _ in 0..3 {
        session.push(from, to, bytes::Bytes::from_static(b"something under way"));
        session.next_piece();
    }
    for part in bytes.chunks(usize::from(*step).max(1)) {
        reader.feed(part);
        loop {
            let frame = match reader.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return,
            };
            // What is read is what was written, and no more is kept than was sent.
            let mut again = Vec::new();
            frame.put(&mut again);
            assert!(again.len() <= bytes.len(), "{frame:?}");
            let arrived = match frame {
                Frame::Data { number, piece } => session.arrived(number, piece),
                Frame::Ack { number } => session.acknowledged(number).map(|()| None),
                _ => Ok(None),
            };
            match arrived {
                Ok(Some(message)) => drop(decode(message.bytes)),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
});
