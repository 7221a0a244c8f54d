//! What is left in the memory of the dead, as each process tells the controller.

use serde::{Deserialize, Serialize};

use crate::ids::ObjectId;
use crate::value::{Block, Place};

/// What a process knows of the memory of the dead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    pub round: u64,
    /// Objects of dead owners that the sender holds, or held since it mourned.
    pub needs: Vec<Trace>,
    /// Its own objects that lie in the heaps of the dead.
    pub owned: Vec<Place>,
    /// Blocks of its own heap that hold objects of the dead.
    pub homed: Vec<Trace>,
}

/// An object of a dead owner, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    pub object: ObjectId,
    pub block: Option<Block>,
    /// References inside it.
    pub refs: Vec<ObjectId>,
}
