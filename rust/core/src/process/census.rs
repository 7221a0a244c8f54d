//! How much a process remembers: for leak checks and the state API.

use super::Process;

impl Process {
    /// What is there because of somebody's wish, and has to go when nobody wants anything any more.
    #[must_use]
    pub fn census(&self) -> Vec<(&'static str, usize)> {
        let mut counts = vec![
            ("objects", self.object_count()),
            ("doomed objects", self.doomed.len()),
            ("messages to owners", self.releases.len() + self.borrows.len() + self.frees.len()),
        ];
        counts.extend(self.holds.census());
        counts.extend(self.estates.census());
        counts.extend(self.tasks.census());
        counts.extend(self.leases.census());
        counts.extend(self.lineage.census());
        counts.extend(self.actors.census());
        counts.extend(self.groups.census());
        counts.extend(self.definitions.census());
        counts.extend(self.executor.census());
        counts
    }
}
