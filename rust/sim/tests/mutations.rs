//! What is left out is missed: without each of the mechanisms that keep a cluster in order, some schedule among a few
//! breaks an invariant. So they are needed, and the checks can fail.

use raymesh_sim::mutation::Mutation;
use raymesh_sim::run_without;

/// Far more than it takes.
const SEEDS: u64 = 6_000;

/// The first seed that fails without it, and how.
fn missed(mutation: Mutation, what: &[&str]) {
    let failure = (0..SEEDS).find_map(|seed| run_without(seed, Some(mutation)).err());
    let failure = failure.unwrap_or_else(|| panic!("{mutation:?} is missed by none of {SEEDS} seeds"));
    let first: String = failure.lines().next().unwrap_or_default().chars().take(300).collect();
    assert!(what.is_empty() || what.iter().any(|what| first.contains(what)), "{mutation:?}: {first}");
}

#[test]
fn without_barriers_stock_is_taken_too_early() {
    missed(Mutation::NoBarriers, &["is asked what it holds before it has heard all of"]);
    missed(Mutation::NoRounds, &["is asked what it holds before it has heard all of"]);
}

#[test]
fn without_news_the_dead_are_heard_after_their_death() {
    missed(Mutation::NoNews, &["after it was told of its death"]);
    missed(Mutation::UnheardNews, &["after it was told of its death"]);
}

#[test]
fn without_fencing_the_dead_are_heard_after_their_death() {
    missed(Mutation::NoFencing, &["after it was told of its death"]);
}

#[test]
fn without_numbers_a_word_counts_twice() {
    missed(Mutation::NoNumbers, &["twice", "did not ask", "never gets"]);
}

#[test]
fn what_leaves_before_it_is_in_the_journal_is_contradicted_by_the_next_head() {
    missed(Mutation::EffectsBeforeJournal, &[]);
}

#[test]
fn a_head_that_takes_the_loss_of_the_one_before_it_along_leaves_the_dead_alive() {
    missed(Mutation::OnlyTheLastHeadDied, &[]);
}
