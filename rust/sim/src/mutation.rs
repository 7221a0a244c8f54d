//! What the simulation leaves out on purpose, to show that it is needed, and that the checks see it when it is missing.
//! Nothing of this is in the product.

/// See the module. All but [`Mutation::UnheardNews`] and [`Mutation::NoRounds`] are of runs with links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// What is told the head does not wait for what was sent to third hosts before (`core::between::barriers`).
    NoBarriers,
    /// What is told of a dead process may overtake what it has said itself (`core::between::news`).
    NoNews,
    /// What comes from a host that was declared dead is heard.
    NoFencing,
    /// A word that comes a second time is a word (`core::between::line`).
    NoNumbers,
    /// What the controller decides leaves before it is in the journal (`core::head`).
    EffectsBeforeJournal,
    /// A head that is lost before it has written the loss of the one before it takes that along.
    OnlyTheLastHeadDied,
    /// Runs without links: news of a death may overtake the last words of the dead.
    UnheardNews,
    /// Runs without links: what a round asks may overtake what was sent before the answers to the last question.
    NoRounds,
}
