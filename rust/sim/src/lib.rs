//! Whole clusters in one thread, from a seed: the real controller, hosts and processes of
//! `raymesh-core`, random user programs, a network that delays and reorders, and crashes.
//!
//! - [`world`]: the clock, the network, and who is there.
//! - [`node`]: controller, hosts and processes as the world sees them: events in, effects out.
//! - [`links`]: links between hosts, played for real in half of the runs.
//! - [`head`]: what the head writes, its loss, and the one after it. [`lines`]: the words between it and hosts.
//! - [`mutation`]: what is left out on purpose.
//! - [`program`]: what the user code in drivers, tasks and actors does, at random.
//! - [`journal`]: the controller is lost and made again from its journal.
//! - [`calls`]: the tasks and actors that it asks for. [`groups`]: placement groups, and where things are to run.
//! - [`definitions`]: functions and classes. [`names`]: actors found by name. [`legacies`]: what dead
//!   owners leave.
//! - [`payload`]: what values and calls contain.
//! - [`check`]: what must hold at all times, and at the end.
//! - [`fleet`]: not of these: a cluster of any size whose agents only answer, to count what the controller does.
//! - [`promises`]: what the order of messages is, checked at each.
//! - [`stats`]: how much happened.
//! - [`rng`]: randomness from a seed, the same on every machine.
//!
//! A seed always gives the same run. [`run`] answers what went wrong and the trace that led there.
//!
//! # What the network promises
//!
//! What one node sends to another arrives in order, each message once, unless the receiver is dead.
//! There is no order between different senders, with two exceptions that every transport must give:
//! **news of a process's death comes after what the process has sent** to the receiver of the news. And
//! **what a process sent before it said that it has mourned arrives before what the controller asks others
//! because of that**. In half of the runs the network does as it likes within these promises; in the other half
//! [`links`] are played, and the agents have to keep them.

pub mod calls;
pub mod check;
pub mod definitions;
pub mod fleet;
pub mod groups;
pub mod head;
pub mod journal;
pub mod legacies;
pub mod lines;
pub mod links;
pub mod mutation;
pub mod names;
pub mod node;
pub mod payload;
pub mod program;
pub mod promises;
pub mod rng;
pub mod stats;
pub mod world;

use mutation::Mutation;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use stats::Stats;
pub use world::World;

/// Runs the cluster of `seed` to its end.
///
/// # Errors
/// What went wrong, with the last events before it.
pub fn run(seed: u64) -> Result<Stats, String> {
    run_without(seed, None)
}

/// As [`run`], with something left out.
///
/// # Errors
/// What went wrong because of that.
pub fn run_without(seed: u64, what: Option<Mutation>) -> Result<Stats, String> {
    let go = |trace: bool| {
        let mut world = World::new(seed, what, trace);
        let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
        let result = match ended {
            Ok(result) => result,
            Err(panic) => Err(match panic.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => (*panic.downcast_ref::<&str>().unwrap_or(&"panic")).to_owned(),
            }),
        };
        (result, world)
    };
    let (result, world) = go(false);
    match result {
        Ok(()) => Ok(world.stats),
        Err(_) => {
            // Once more, with the trace that would slow down the good runs.
            let (result, world) = go(true);
            let what = result.err().unwrap_or_else(|| "it does not fail a second time".to_owned());
            Err(format!("seed {seed}: {what}\n{}", world.trace_text()))
        }
    }
}
