//! Identifiers. Small and copyable inside the runtime; [`ObjectId::to_ray_bytes`] and its siblings
//! give the sizes that Ray's users see (28-byte objects, 24-byte tasks, 16-byte actors).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A host of the cluster, numbered by the controller in order of joining; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostId(pub u32);

impl HostId {
    /// Ray's 28-byte form, of a host of a cluster: the hosts and drivers of a cluster have the same names for each
    /// other, so there only the number counts.
    #[must_use]
    pub fn to_ray_bytes(self) -> [u8; 28] {
        const CLUSTER: [u8; 16] =
            [0xac, 0x30, 0xa9, 0xe2, 0xdb, 0xb2, 0xf8, 0x93, 0x68, 0x0c, 0x3c, 0xff, 0x61, 0x1b, 0xa5, 0x18];
        let mut out = [0; 28];
        out[..16].copy_from_slice(&CLUSTER);
        out[24..].copy_from_slice(&self.0.to_be_bytes());
        out
    }
}

/// A process: host, incarnation and mailbox slot in one word. Slots are reused, a `ProcId` never is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcId(u64);

impl ProcId {
    /// Bits of the mailbox slot: up to 16,384 processes at once on one host.
    pub const SLOT_BITS: u32 = 14;
    /// Largest number of mailboxes on one host.
    pub const MAX_SLOTS: u32 = 1 << Self::SLOT_BITS;
    /// Slot of a host's agent.
    pub const AGENT_SLOT: u32 = 0;

    /// The process in `slot` of `host`, in its `incarnation`-th use (18 bits).
    #[must_use]
    pub const fn new(host: HostId, incarnation: u32, slot: u32) -> Self {
        debug_assert!(slot < Self::MAX_SLOTS);
        Self(((host.0 as u64) << 32) | (((incarnation << Self::SLOT_BITS) | slot) as u64))
    }

    /// Where messages for the controller go, on whatever host it is at present.
    pub const CONTROLLER: Self = Self::agent(HostId(1));

    /// The agent of `host`.
    #[must_use]
    pub const fn agent(host: HostId) -> Self {
        Self::new(host, 0, Self::AGENT_SLOT)
    }

    #[must_use]
    pub const fn host(self) -> HostId {
        HostId((self.0 >> 32) as u32)
    }

    #[must_use]
    pub const fn slot(self) -> u32 {
        (self.0 as u32) & (Self::MAX_SLOTS - 1)
    }

    #[must_use]
    pub const fn incarnation(self) -> u32 {
        (self.0 as u32) >> Self::SLOT_BITS
    }

    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    #[must_use]
    pub const fn from_u64(raw: u64) -> Self {
        Self(raw)
    }
}

impl fmt::Debug for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}.{}.{}", self.host().0, self.slot(), self.incarnation())
    }
}

/// A job: one driver's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(pub u32);

/// A task, named by the process that submitted it and owns its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    pub owner: ProcId,
    pub seq: u64,
}

impl TaskId {
    /// The `index`-th result (from 1) of this task.
    #[must_use]
    pub const fn object(self, index: u32) -> ObjectId {
        ObjectId { owner: self.owner, seq: self.seq, index }
    }

    /// Ray's 24-byte form.
    #[must_use]
    pub fn to_ray_bytes(self, job: JobId) -> [u8; 24] {
        let mut out = [0xff; 24];
        out[0..8].copy_from_slice(&self.seq.to_be_bytes());
        out[8..16].copy_from_slice(&self.owner.as_u64().to_be_bytes());
        out[20..24].copy_from_slice(&job.0.to_le_bytes());
        out
    }
}

/// An object: owned by the process that made the reference, for as long as that process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    pub owner: ProcId,
    /// The owner's counter, shared by its tasks and its puts.
    pub seq: u64,
    /// Result index of the task, from 1. A `put` has index 1.
    pub index: u32,
}

impl ObjectId {
    /// The task whose result this is (for a `put`, the id it would have had).
    #[must_use]
    pub const fn task(self) -> TaskId {
        TaskId { owner: self.owner, seq: self.seq }
    }

    /// Ray's 28-byte form: the task, then the index.
    #[must_use]
    pub fn to_ray_bytes(self, job: JobId) -> [u8; 28] {
        let mut out = [0; 28];
        out[..24].copy_from_slice(&self.task().to_ray_bytes(job));
        out[24..].copy_from_slice(&self.index.to_le_bytes());
        out
    }

    /// Inverse of [`Self::to_ray_bytes`].
    #[must_use]
    pub fn from_ray_bytes(raw: &[u8; 28]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&raw[at..at + 8]);
            u64::from_be_bytes(bytes)
        };
        let mut index = [0; 4];
        index.copy_from_slice(&raw[24..]);
        Self { owner: ProcId(word(8)), seq: word(0), index: u32::from_le_bytes(index) }
    }
}

/// An actor, named by the process that created it. Survives restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActorId {
    pub creator: ProcId,
    pub seq: u32,
}

impl ActorId {
    /// Ray's 16-byte form: 12 bytes of the actor, then the job.
    #[must_use]
    pub fn to_ray_bytes(self, job: JobId) -> [u8; 16] {
        let mut out = [0; 16];
        out[0..4].copy_from_slice(&self.seq.to_be_bytes());
        out[4..12].copy_from_slice(&self.creator.as_u64().to_be_bytes());
        out[12..].copy_from_slice(&job.0.to_le_bytes());
        out
    }
}

/// A placement group, named by the process that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupId {
    pub creator: ProcId,
    pub seq: u32,
}

impl GroupId {
    /// Ray's 18-byte form: 14 bytes of the group, then the job.
    #[must_use]
    pub fn to_ray_bytes(self, job: JobId) -> [u8; 18] {
        let mut out = [0; 18];
        out[0..4].copy_from_slice(&self.seq.to_be_bytes());
        out[4..12].copy_from_slice(&self.creator.as_u64().to_be_bytes());
        out[14..].copy_from_slice(&job.0.to_le_bytes());
        out
    }

    /// Inverse of [`Self::to_ray_bytes`].
    #[must_use]
    pub fn from_ray_bytes(raw: &[u8; 18]) -> Self {
        let (mut seq, mut creator) = ([0; 4], [0; 8]);
        seq.copy_from_slice(&raw[0..4]);
        creator.copy_from_slice(&raw[4..12]);
        Self { creator: ProcId(u64::from_be_bytes(creator)), seq: u32::from_be_bytes(seq) }
    }
}

/// Lower-case hexadecimal digits, as ids are shown to people.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The right to run tasks on one worker, granted by the controller; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseId(pub u64);

/// A request awaiting its answer, numbered by the asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A pickled function or class, by 128-bit content hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionId(pub [u8; 16]);
