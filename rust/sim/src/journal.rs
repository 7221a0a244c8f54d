//! The controller with its journal, as a head keeps it: now and then it is lost, and made again from a
//! snapshot and what has happened since. Nobody may notice.

use std::ops::Deref;

use raymesh_core::controller::{Controller, Effect, Event};

use crate::rng::Rng;

/// A head is lost once in so many events.
const RESTARTS: usize = 300;
/// A snapshot is taken once in so many events.
const SNAPSHOTS: usize = 100;

/// See the module.
#[derive(Debug)]
pub struct Journalled {
    controller: Controller,
    rng: Rng,
    snapshot: Vec<u8>,
    since: Vec<(u64, Event)>,
    pub restarts: u64,
}

impl Journalled {
    /// A new controller. Randomness of its own: what happens to others does not depend on its losses.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let controller = Controller::new();
        let snapshot = save(&controller);
        Self { controller, rng: Rng::new(!seed), snapshot, since: Vec::new(), restarts: 0 }
    }

    /// The controller itself: in runs with links, the head keeps the journal ([`crate::head`]).
    pub const fn inner(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// [`Controller::handle`].
    ///
    /// # Panics
    /// When the controller is another one after its restart.
    pub fn handle(&mut self, now: u64, event: Event, effects: &mut Vec<Effect>) {
        let before = effects.len();
        self.since.push((now, event.clone()));
        self.controller.handle(now, event, effects);
        if self.rng.one_in(RESTARTS) {
            self.restart(&effects[before..]);
        }
        if self.rng.one_in(SNAPSHOTS) {
            self.snapshot = save(&self.controller);
            self.since.clear();
        }
    }

    fn restart(&mut self, said: &[Effect]) {
        let Ok(mut again) = postcard::from_bytes::<Controller>(&self.snapshot) else {
            panic!("the snapshot of a controller cannot be read");
        };
        let mut effects = Vec::new();
        for (now, event) in &self.since {
            effects.clear();
            again.handle(*now, event.clone(), &mut effects);
        }
        assert_eq!(effects, said, "the controller says something else when its journal is played again");
        assert!(save(&again) == save(&self.controller), "the controller is another one after its restart");
        self.controller = again;
        self.restarts += 1;
    }
}

impl Deref for Journalled {
    type Target = Controller;

    fn deref(&self) -> &Controller {
        &self.controller
    }
}

fn save(controller: &Controller) -> Vec<u8> {
    let saved = postcard::to_allocvec(controller);
    assert!(saved.is_ok(), "the controller cannot be saved: {saved:?}");
    saved.unwrap_or_default()
}
