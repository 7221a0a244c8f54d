//! Every message comes out as it went in, and nothing but whole messages does.

mod common;

use bytes::Bytes;
use common::samples::{KINDS, kind, samples};
use common::{any, encoded};
use proptest::prelude::*;
use raymesh_wire::codec::encode_call;
use raymesh_wire::{DecodeError, Message, decode};

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn every_message_comes_out_as_it_went_in(message in any::message()) {
        prop_assert_eq!(decode(encoded(&message)), Ok(message));
    }

    #[test]
    fn a_message_is_appended_to_what_is_there(message in any::message(), before in proptest::collection::vec(any::<u8>(), 0..9)) {
        let mut out = before.clone();
        raymesh_wire::encode(&message, &mut out);
        prop_assert_eq!(&out[..before.len()], &before[..]);
        prop_assert_eq!(decode(Bytes::copy_from_slice(&out[before.len()..])), Ok(message));
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_beginning_of_a_message_is_one(message in any::message()) {
        let bytes = encoded(&message);
        for len in 0..bytes.len() {
            prop_assert!(decode(bytes.slice(..len)).is_err(), "{} of {} bytes of {:?}", len, bytes.len(), message);
        }
    }

    #[test]
    fn bytes_after_the_end_are_refused(message in any::message(), more in proptest::collection::vec(any::<u8>(), 1..9)) {
        let mut bytes = encoded(&message).to_vec();
        let count = more.len();
        bytes.extend(more);
        prop_assert_eq!(decode(bytes.into()), Err(DecodeError::Trailing { count }));
    }
}

#[test]
fn there_is_a_sample_of_every_kind() {
    let mut kinds: Vec<_> = samples().iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), KINDS, "{kinds:?}");
}

#[test]
fn a_call_kept_elsewhere_is_encoded_as_the_message() {
    for message in samples() {
        if let Message::Call(call) = &message {
            let mut out = Vec::new();
            encode_call(call, &mut out);
            assert_eq!(out, encoded(&message));
        }
    }
}

/// Large payloads are read where they lie.
#[test]
fn payloads_are_not_copied() {
    let body = Bytes::from(vec![7; 100_000]);
    let object = raymesh_wire::ObjectId { owner: raymesh_wire::ProcId::default(), seq: 1, index: 1 };
    let value = raymesh_wire::Value::Inline(body);
    let bytes = encoded(&Message::Value { object, value, refs: vec![], places: vec![] });
    let range = bytes.as_ptr_range();
    let Ok(Message::Value { value: raymesh_wire::Value::Inline(body), .. }) = decode(bytes) else {
        panic!("not a value")
    };
    assert!(range.contains(&body.as_ptr()));
}
