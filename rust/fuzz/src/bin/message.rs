//! Messages between processes, agents and the controller: what decodes is encoded and decoded to the same again.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use raymesh_wire::{decode, encode, envelope};

fuzz_target!(|input: &[u8]| {
    let input = Bytes::copy_from_slice(input);
    let _ = envelope::open(&input);
    let Ok(message) = decode(input) else { return };
    let mut bytes = Vec::new();
    encode(&message, &mut bytes);
    let mut again = Vec::new();
    match decode(Bytes::from(bytes.clone())) {
        Ok(message) => encode(&message, &mut again),
        Err(error) => panic!("{message:?} does not come back: {error:?}"),
    }
    assert_eq!(bytes, again);
});
