//! The encoding does not change by accident: each kind of message against bytes written down once.
//!
//! After a change on purpose raise `WIRE_VERSION` and run with `RAYMESH_BLESS=1`.

#![allow(clippy::disallowed_methods)] // whether to write the vectors comes from the environment

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use common::samples::{kind, samples};
use common::{encoded, from_hex, to_hex};
use raymesh_wire::{WIRE_VERSION, decode};

/// The version that the vectors are of.
const VERSION: u16 = 2;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.hex"))
}

/// Samples by the names of their files: kinds with several samples are numbered.
fn named() -> BTreeMap<String, raymesh_wire::Message> {
    let mut named = BTreeMap::new();
    for message in samples() {
        let name = kind(&message);
        let taken = |name: &String| named.contains_key(name);
        let names = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}_{n}")));
        let name = names.into_iter().find(|name| !taken(name)).unwrap_or_default();
        named.insert(name, message);
    }
    named
}

#[test]
fn messages_are_encoded_as_ever() {
    let bless = std::env::var_os("RAYMESH_BLESS").is_some();
    for (name, message) in named() {
        let bytes = encoded(&message);
        if bless {
            fs::write(file(&name), to_hex(&bytes)).unwrap();
        }
        let text = fs::read_to_string(file(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let golden = from_hex(&text);
        assert_eq!(to_hex(&golden), to_hex(&bytes), "{name} is encoded in another way than before");
        assert_eq!(decode(golden.into()), Ok(message), "{name}");
    }
}

#[test]
fn the_version_is_that_of_the_vectors() {
    assert_eq!(WIRE_VERSION, VERSION, "a new version: bless its vectors and raise VERSION here");
}

#[test]
fn no_vector_is_of_a_message_that_is_gone() {
    let named = named();
    for entry in fs::read_dir(file("x").parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(named.contains_key(&name), "{name} belongs to no message");
    }
}
