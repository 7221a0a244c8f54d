//! Input that is no message: refused, without a panic and without more memory than it deserves.
//!
//! `hostile/` holds what was thought of once; each file begins with what it is. The process may not take
//! much more memory than it has, so that a decoder which believes a length is found out.

mod common;

use std::fs;
use std::path::Path;

use bytes::Bytes;
use common::samples::samples;
use common::{any, encoded, from_hex};
use proptest::prelude::*;
use raymesh_wire::{DecodeError, decode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ample for the tests, and far from the 80 GB that a believed length would ask for.
const MEMORY: u64 = 4 << 30;

fn limit_memory() {
    let maximum = getrlimit(Resource::As).maximum;
    let limit = Rlimit { current: Some(MEMORY), maximum };
    setrlimit(Resource::As, limit).expect("the system refuses a limit of memory");
}

#[test]
fn hostile_inputs_are_refused() {
    limit_memory();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = from_hex(&fs::read_to_string(&path).unwrap());
        assert!(decode(bytes.into()).is_err(), "{} is taken for a message", path.display());
        count += 1;
    }
    assert!(count >= 20, "only {count} inputs found");
}

#[test]
fn errors_say_what_is_wrong() {
    let error = |bytes: &'static [u8]| decode(Bytes::from_static(bytes)).unwrap_err();
    assert_eq!(error(&[]), DecodeError::Truncated { what: "kind" });
    assert_eq!(error(&[0]), DecodeError::Unknown { what: "message kind", found: 0 });
    assert_eq!(error(&[200]), DecodeError::Unknown { what: "message kind", found: 200 });
    assert_eq!(error(&[9, 0, 0, 0, 0, 1]), DecodeError::Trailing { count: 1 });
    assert_eq!(error(&[9, 255, 255, 255, 255]), DecodeError::Truncated { what: "list" });
    assert!(matches!(error(&[10, 99]), DecodeError::Control(_)));
    assert_eq!(error(&[9, 0]).to_string(), "message ends before its list length");
}

/// Each place of each message is overwritten with the largest lengths.
#[test]
fn lengths_are_not_believed() {
    limit_memory();
    let long: [&[u8]; 4] = [
        &[0xff; 4],
        &[0xff, 0xff, 0xff, 0x7f],
        // The same as variable-length numbers of control messages.
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    ];
    for message in samples() {
        let good = encoded(&message);
        for at in 1..good.len() {
            for lie in long {
                let mut bytes = good[..at].to_vec();
                bytes.extend(lie);
                bytes.extend(good.get(at + lie.len()..).unwrap_or_default());
                let _ = decode(bytes.into());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(kind in 0u8..16, rest in proptest::collection::vec(any::<u8>(), 0..300)) {
        limit_memory();
        let mut bytes = vec![kind];
        bytes.extend(rest);
        let _ = decode(bytes.into());
    }

    #[test]
    fn no_damage_makes_it_panic(message in any::message(), damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        limit_memory();
        let mut bytes = encoded(&message).to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // What is a message after all comes out of the encoder as it went in, or shorter.
        if let Ok(other) = decode(bytes.clone().into()) {
            let again = encoded(&other);
            prop_assert_eq!(decode(again.clone()), Ok(other));
            prop_assert!(again.len() <= bytes.len());
        }
    }
}
