//! What to import ahead, and when.

use std::collections::BTreeMap;

use super::Key;

/// Wishes are gathered so long, and the first workers of a program are not held up.
const DELAY: u64 = 250_000_000;
/// Longest time for all imports together.
const LIMIT: u64 = 120_000_000_000;

/// See the module.
#[derive(Debug)]
pub struct Warming {
    enabled: bool,
    /// In the order wanted.
    modules: Vec<String>,
    /// Not to be tried again, and why.
    left_out: BTreeMap<String, String>,
    /// When to start a zygote for what is new.
    due: Option<u64>,
    candidate: Option<Candidate>,
    /// Workers that may be forked cold during one warming.
    cores: usize,
}

#[derive(Debug)]
struct Candidate {
    key: Key,
    deadline: u64,
    /// Workers forked by others meanwhile.
    cold: usize,
}

impl Warming {
    pub fn new(cores: usize, enabled: bool) -> Self {
        let (modules, left_out) = (Vec::new(), BTreeMap::new());
        Self { enabled, modules, left_out, due: None, candidate: None, cores: cores.max(1) }
    }

    pub fn want(&mut self, modules: Vec<String>, now: u64) {
        for module in modules {
            let plain = !module.is_empty() && !module.contains('\0');
            if plain && !self.modules.contains(&module) && !self.left_out.contains_key(&module) {
                self.modules.push(module);
                self.due.get_or_insert(now + DELAY);
            }
        }
    }

    /// What the zygote that is to be started now imports.
    pub fn due(&mut self, now: u64, calm: bool) -> Option<Vec<String>> {
        let is_due = self.enabled && self.due.is_some_and(|due| due <= now);
        if !is_due || !calm || self.candidate.is_some() || self.modules.is_empty() {
            return None;
        }
        self.due = None;
        Some(self.modules.clone())
    }

    pub fn started(&mut self, key: Key, now: u64) {
        self.candidate = Some(Candidate { key, deadline: now + LIMIT, cold: 0 });
    }

    /// Whether this is the candidate, which takes over.
    pub fn ready(&mut self, key: Key, now: u64) -> bool {
        let takes_over = self.candidate.take_if(|candidate| candidate.key == key).is_some();
        if takes_over && self.due.is_some() {
            self.due = Some(now);
        }
        takes_over
    }

    /// The candidate is given up because of `module`; another one leaves it out. Without a module to
    /// blame, nothing is imported ahead any more.
    pub fn failed(&mut self, key: Key, module: &str, reason: String) {
        if self.candidate.take_if(|candidate| candidate.key == key).is_none() {
            return;
        }
        if module.is_empty() {
            self.enabled = false;
        } else {
            self.leave_out(module, reason);
            self.due = Some(0);
        }
    }

    pub fn leave_out(&mut self, module: &str, reason: String) {
        self.modules.retain(|wanted| wanted != module);
        self.left_out.insert(module.to_owned(), reason);
    }

    /// Whether the zygote may fork a worker now.
    pub fn allows(&self, key: Key) -> bool {
        self.candidate.as_ref().is_none_or(|candidate| key >= candidate.key || candidate.cold < self.cores)
    }

    pub fn forked(&mut self, key: Key) {
        if let Some(candidate) = self.candidate.as_mut().filter(|candidate| key < candidate.key) {
            candidate.cold += 1;
        }
    }

    /// The candidate, when it takes too long.
    pub fn overdue(&self, now: u64) -> Option<Key> {
        self.candidate.as_ref().filter(|candidate| candidate.deadline <= now).map(|candidate| candidate.key)
    }

    /// When the answers of [`Self::due`] and [`Self::overdue`] change by time alone.
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        match &self.candidate {
            Some(candidate) => Some(candidate.deadline),
            None => self.due.filter(|due| self.enabled && *due > now),
        }
    }
}
