//! The agent's orderly end: nothing is left of it.

use raymesh_wire::control::ExitReason;
use raymesh_wire::{FromController, Message};

use super::run::Runner;

/// Workers have so long to end by themselves.
const GRACE: u64 = 1_000_000_000;
/// Killed ones, and zygotes, are gone within this time.
const FORCE: u64 = 3_000_000_000;

impl Runner {
    /// Ends all processes and takes in what they have printed.
    pub(super) fn end(&mut self) {
        self.abandon_forks();
        let workers: Vec<_> = self.workers.keys().copied().collect();
        for proc in &workers {
            let message = FromController::Exit { reason: ExitReason::Shutdown };
            self.send(*proc, &Message::FromController(message));
        }
        self.turns_until(GRACE, |runner| runner.workers.is_empty());
        for proc in workers {
            self.kill(proc);
        }
        self.turns_until(FORCE, |runner| runner.workers.is_empty());
        self.nursery.quit();
        self.turns_until(FORCE, |runner| runner.nursery.is_empty());
        self.nursery.kill();
        self.turns_until(FORCE, |runner| runner.nursery.is_empty());
        self.streams.finish(&mut self.poller);
        self.spread_output();
        self.bulk.close();
        self.leave();
        self.limits.restore();
    }

    fn turns_until(&mut self, patience: u64, is_done: impl Fn(&Self) -> bool) {
        let deadline = self.clock.now() + patience;
        while !is_done(self) && self.clock.now() < deadline {
            self.turn(Some(deadline));
        }
    }
}
