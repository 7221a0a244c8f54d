//! Resource sets as small numbers: names become indices, equal sets become one shape.

use std::collections::BTreeMap;

use raymesh_wire::{Quantity, ResourceSet};

/// Index of a resource name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResId(pub u32);

pub(super) const CPU: ResId = ResId(0);
pub(super) const GPU: ResId = ResId(1);
pub(super) const MEMORY: ResId = ResId(2);
const KNOWN: [&str; 3] = ["CPU", "GPU", "memory"];

/// Index of a distinct resource set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShapeId(u32);

/// A resource set that somebody asks for or holds.
#[derive(Clone, Debug)]
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
#[derive(Debug)]
pub(super) struct Shapes {
    names: BTreeMap<String, ResId>,
    ids: BTreeMap<ResourceSet, ShapeId>,
    shapes: Vec<Shape>,
}

impl Default for Shapes {
    fn default() -> Self {
        let names = KNOWN.iter().zip(0..).map(|(name, at)| ((*name).to_owned(), ResId(at))).collect();
        Self { names, ids: BTreeMap::new(), shapes: Vec::new() }
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
        let mut amounts: Vec<_> = set.iter().map(|(name, Quantity(n))| (self.resource(name), n)).collect();
        amounts.sort_unstable();
        let of = |id| amounts.iter().find(|(it, _)| *it == id).map_or(0, |(_, n)| *n);
        let (cpu, gpu) = (of(CPU), of(GPU));
        let id = ShapeId(self.shapes.len() as u32);
        self.shapes.push(Shape { set: set.clone(), amounts: amounts.into(), cpu, gpu });
        self.ids.insert(set.clone(), id);
        id
    }

    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0 as usize]
    }
}
