//! How much happened.

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    pub events: u64,
    pub tasks: u64,
    pub actors: u64,
    pub groups: u64,
    pub deaths: u64,
    pub hosts_lost: u64,
    pub errors: u64,
    /// Actors found by their names.
    pub found: u64,
    /// Values that were read after the death of their owner.
    pub survived: u64,
    /// Times that the controller was made again from its journal.
    pub restarts: u64,
    /// Times that the head was lost, with its host.
    pub heads_lost: u64,
    /// What was to go to a host that the sender had not heard of yet.
    pub early: u64,
    /// Values whose bytes were gone with their host when somebody wanted to read them.
    pub lost: u64,
    /// Links that were cut, hosts that were declared dead while they lived, and such as came back.
    pub cuts: u64,
    pub fenced: u64,
    pub rejoined: u64,
    /// Values that could not be made again.
    pub unrebuildable: u64,
}

impl Stats {
    /// Each with its name.
    #[must_use]
    pub const fn counts(&self) -> [(&'static str, u64); 17] {
        [
            ("events", self.events),
            ("tasks", self.tasks),
            ("actors", self.actors),
            ("groups", self.groups),
            ("deaths", self.deaths),
            ("hosts_lost", self.hosts_lost),
            ("errors", self.errors),
            ("found", self.found),
            ("survived", self.survived),
            ("restarts", self.restarts),
            ("heads_lost", self.heads_lost),
            ("early", self.early),
            ("lost", self.lost),
            ("cuts", self.cuts),
            ("fenced", self.fenced),
            ("rejoined", self.rejoined),
            ("unrebuildable", self.unrebuildable),
        ]
    }

    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.tasks += other.tasks;
        self.actors += other.actors;
        self.groups += other.groups;
        self.deaths += other.deaths;
        self.hosts_lost += other.hosts_lost;
        self.errors += other.errors;
        self.found += other.found;
        self.survived += other.survived;
        self.restarts += other.restarts;
        self.heads_lost += other.heads_lost;
        self.early += other.early;
        self.lost += other.lost;
        self.cuts += other.cuts;
        self.fenced += other.fenced;
        self.rejoined += other.rejoined;
        self.unrebuildable += other.unrebuildable;
    }
}
