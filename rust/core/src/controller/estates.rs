//! What the dead leave behind is settled in [`crate::estates`]; this is its place in the controller.

use raymesh_wire::control::{Death, DeathCause, ExitReason, ToHost};
use raymesh_wire::{FromController, ProcId, ToController};

use super::{Controller, Effects, order, send};
use crate::estates::Outcome;

impl Controller {
    /// A process has died. One that idled and had nothing leaves nothing: that can wait for the next
    /// who does.
    pub(super) fn bequeath(&mut self, dead: ProcId, death: &Death, memory: bool, effects: &mut Effects) {
        let idled = death.cause == DeathCause::Requested { reason: ExitReason::Retired };
        let mut outcomes = Vec::new();
        self.estates.died(dead, memory || !idled, self.now, &mut outcomes);
        self.execute(outcomes, effects);
    }

    /// What processes say of the dead.
    pub(super) fn on_estates(&mut self, from: ProcId, message: ToController, effects: &mut Effects) {
        let mut outcomes = Vec::new();
        let (now, out) = (self.now, &mut outcomes);
        match message {
            ToController::Mourned { round } => self.estates.mourned(from, round, now, out),
            ToController::Stock(stock) => self.estates.stock(from, stock, now, out),
            ToController::Seek { object } => self.estates.seek(from, object, now, out),
            ToController::LetGo { objects } => self.estates.let_go(from, &objects, now, out),
            _ => {}
        }
        self.execute(outcomes, effects);
    }

    pub(super) fn settle_estates(&mut self, effects: &mut Effects) {
        let mut outcomes = Vec::new();
        self.estates.tick(self.now, &mut outcomes);
        self.execute(outcomes, effects);
    }

    /// Who asks late for a death must also hear that it has been settled.
    pub(super) fn tell_settled(&self, to: ProcId, dead: ProcId, effects: &mut Effects) {
        if self.estates.is_settled(dead) {
            send(effects, to, FromController::Settled { dead: vec![dead] });
        }
    }

    /// How many objects are kept for the readers of the dead, and whether anything is still to be settled:
    /// for tests.
    #[must_use]
    pub fn estates_remain(&self) -> (usize, bool) {
        self.estates.remains()
    }

    fn execute(&self, outcomes: Vec<Outcome>, effects: &mut Effects) {
        for outcome in outcomes {
            match outcome {
                Outcome::Send { to, message } => send(effects, to, message),
                Outcome::Sweep { dead, except } => {
                    order(effects, dead.host(), ToHost::Sweep { dead, except });
                }
                Outcome::Free(block) => {
                    order(effects, block.host(), ToHost::FreeBlocks { blocks: vec![block] });
                }
            }
        }
    }
}
