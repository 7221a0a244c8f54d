//! Names of living actors, by namespace.

use std::collections::BTreeMap;

use raymesh_wire::ActorId;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Names {
    /// By name, then namespace: so that "which namespaces have it" is a range.
    taken: BTreeMap<(String, String), ActorId>,
}

impl Names {
    /// Who has the name; takes it if nobody has.
    pub fn take(&mut self, name: &str, namespace: &str, actor: ActorId) -> Option<ActorId> {
        let key = (name.to_owned(), namespace.to_owned());
        let holder = *self.taken.entry(key).or_insert(actor);
        (holder != actor).then_some(holder)
    }

    /// Frees the name, if it is this actor's.
    pub fn free(&mut self, name: &str, namespace: &str, actor: ActorId) {
        let key = (name.to_owned(), namespace.to_owned());
        if self.taken.get(&key) == Some(&actor) {
            self.taken.remove(&key);
        }
    }

    pub fn get(&self, name: &str, namespace: &str) -> Option<ActorId> {
        self.taken.get(&(name.to_owned(), namespace.to_owned())).copied()
    }

    /// Namespaces in which the name is taken.
    pub fn namespaces(&self, name: &str) -> Vec<String> {
        self.taken
            .range((name.to_owned(), String::new())..)
            .take_while(|((it, _), _)| it == name)
            .map(|((_, namespace), _)| namespace.clone())
            .collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, ActorId)> {
        self.taken.iter().map(|((name, _), id)| (name.as_str(), *id))
    }
}
