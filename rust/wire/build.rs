//! Computes what the layout of messages hashes to, so that two builds which would not understand each other can
//! tell each other so.
//!
//! Serde's derives make the encoding from the definitions in `src`, so these are what is hashed: without comments and
//! white space, which change nothing. Too much is hashed (functions, too), which at worst tells apart what is equal.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

// A build script has no runtime to take its configuration from.
#[allow(clippy::disallowed_methods)]
fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files)?;
    files.sort();
    let mut hash = Fnv::new();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        hash.add(file.strip_prefix(&root).unwrap_or(&file).as_os_str().as_encoded_bytes());
        for line in fs::read_to_string(&file)?.lines() {
            for word in line.split("//").next().unwrap_or_default().split_whitespace() {
                hash.add(word.as_bytes());
            }
        }
    }
    println!("cargo::rerun-if-changed={}", root.join("src").display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=RAYMESH_WIRE_LAYOUT={}", hash.0);
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a: the same on every machine and in every release of the standard library.
struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
