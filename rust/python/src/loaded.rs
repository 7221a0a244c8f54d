//! Functions and classes that were loaded in this process, the latest used ones: the others are asked for again.

use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use pyo3::prelude::*;
use raymesh_wire::FunctionId;

/// Together they take at most so much, by the size of their pickles.
const MOST: usize = 64 << 20;
/// What even a small one takes, roughly.
const LEAST: usize = 8 << 10;
/// So many of the latest are kept however large they are.
const KEPT: usize = 4;

/// A callable and its name.
pub(crate) type Named = (Py<PyAny>, Arc<str>);

struct Entry {
    named: Named,
    weight: usize,
    /// When it was used last: a number that grows.
    used: u64,
}

#[derive(Default)]
struct Loaded {
    entries: HashMap<FunctionId, Entry>,
    weight: usize,
    clock: u64,
}

static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

pub(crate) fn get(py: Python<'_>, id: FunctionId) -> Option<Named> {
    let mut guard = LOADED.lock();
    let loaded = guard.as_mut()?;
    let entry = loaded.entries.get_mut(&id)?;
    loaded.clock += 1;
    entry.used = loaded.clock;
    Some((entry.named.0.clone_ref(py), Arc::clone(&entry.named.1)))
}

/// The name of one that is loaded.
pub(crate) fn name_of(id: FunctionId) -> Option<Arc<str>> {
    LOADED.lock().as_ref()?.entries.get(&id).map(|entry| Arc::clone(&entry.named.1))
}

/// Keeps it. `size`: of its pickle.
pub(crate) fn insert(id: FunctionId, named: Named, size: usize) {
    let mut guard = LOADED.lock();
    let loaded = guard.get_or_insert_default();
    loaded.clock += 1;
    let entry = Entry { named, weight: size.max(LEAST), used: loaded.clock };
    loaded.weight += entry.weight;
    let before = loaded.entries.insert(id, entry);
    loaded.weight -= before.as_ref().map_or(0, |before| before.weight);
    let gone = if loaded.weight > MOST { loaded.shrink() } else { Vec::new() };
    // What goes may run Python code, which may come here again.
    drop(guard);
    drop((before, gone));
}

impl Loaded {
    /// Takes out those that were not used for the longest time, a quarter more than has to go: so the search
    /// for them is rare.
    fn shrink(&mut self) -> Vec<Entry> {
        let mut ages: Vec<_> = self.entries.iter().map(|(id, entry)| (entry.used, *id)).collect();
        ages.sort_unstable();
        ages.truncate(ages.len().saturating_sub(KEPT));
        let mut gone = Vec::new();
        for (_, id) in ages {
            if self.weight <= MOST / 4 * 3 {
                break;
            }
            if let Some(entry) = self.entries.remove(&id) {
                self.weight -= entry.weight;
                gone.push(entry);
            }
        }
        gone
    }
}
