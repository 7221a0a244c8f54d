//! Resource sets as small numbers: names become indices, equal sets become one shape.

use std::collections::{BTreeMap, BTreeSet};

use raymesh_wire::{Quantity, ResourceSet};
use serde::{Deserialize, Serialize};

/// Index of a resource name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ResId(pub u32);

pub(super) const CPU: ResId = ResId(0);
pub(super) const GPU: ResId = ResId(1);
pub(super) const MEMORY: ResId = ResId(2);
const KNOWN: [&str; 3] = ["CPU", "GPU", "memory"];

/// Index of a distinct resource set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ShapeId(u32);

/// A resource set that somebody asks for or holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Shape {
    pub set: ResourceSet,
    /// Ordered by resource; includes GPU.
    pub amounts: Box<[(ResId, u64)]>,
    pub cpu: u64,
    pub gpu: u64,
}

impl Shape {
    /// Whether both ask for some resource in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.amounts.iter().any(|(id, _)| other.amounts.iter().any(|(it, _)| it == id))
    }
}

/// All names and shapes met so far.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shapes {
    names: BTreeMap<String, ResId>,
    ids: BTreeMap<ResourceSet, ShapeId>,
    shapes: Vec<Shape>,
    vacant: Vec<ShapeId>,
}

impl Default for Shapes {
    fn default() -> Self {
        let names = KNOWN.iter().zip(0..).map(|(name, at)| ((*name).to_owned(), ResId(at))).collect();
        Self { names, ids: BTreeMap::new(), shapes: Vec::new(), vacant: Vec::new() }
    }
}

impl Shapes {
    pub fn resource(&mut self, name: &str) -> ResId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = ResId(self.names.len() as u32);
        self.names.insert(name.to_owned(), id);
        id
    }

    pub fn intern(&mut self, set: &ResourceSet) -> ShapeId {
        if let Some(id) = self.ids.get(set) {
            return *id;
        }
        let shape = self.shape(set);
        let id = if let Some(id) = self.vacant.pop() {
            self.shapes[id.0 as usize] = shape;
            id
        } else {
            self.shapes.push(shape);
            ShapeId(self.shapes.len() as u32 - 1)
        };
        self.ids.insert(set.clone(), id);
        id
    }

    /// The shape of a set, without remembering it.
    pub fn shape(&mut self, set: &ResourceSet) -> Shape {
        let mut amounts: Vec<_> = set.iter().map(|(name, Quantity(n))| (self.resource(name), n)).collect();
        amounts.sort_unstable();
        let of = |id| amounts.iter().find(|(it, _)| *it == id).map_or(0, |(_, n)| *n);
        let (cpu, gpu) = (of(CPU), of(GPU));
        Shape { set: set.clone(), amounts: amounts.into(), cpu, gpu }
    }

    /// Forgets all but these.
    pub fn keep(&mut self, used: &BTreeSet<ShapeId>) {
        let vacant = &mut self.vacant;
        self.ids.retain(|_, id| {
            let keep = used.contains(id);
            if !keep {
                vacant.push(*id);
            }
            keep
        });
    }

    /// How many shapes there are.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0 as usize]
    }
}
