//! Thousands of random clusters. `RAYMESH_SIM_SEEDS=20000` tries more, from `RAYMESH_SIM_FIRST` on,
//! `RAYMESH_SIM_SEED=17` one; `RAYMESH_SIM_THREADS=1` does so on one core.

#![allow(clippy::disallowed_methods)] // which seeds to try comes from the environment

use std::ops::Range;
use std::thread;

use raymesh_sim::Stats;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs every second seed, from `first` on.
fn run(first: u64, seeds: &Range<u64>) -> (Vec<String>, Stats) {
    let (mut failures, mut totals) = (Vec::new(), Stats::default());
    for seed in seeds.clone().filter(|seed| seed / 2 % 2 == first) {
        match raymesh_sim::run(seed) {
            Ok(stats) => totals.add(&stats),
            Err(failure) => failures.push(failure),
        }
    }
    (failures, totals)
}

#[test]
fn no_schedule_of_crashes_and_delays_loses_a_task_an_object_or_a_resource() {
    std::panic::set_hook(Box::new(|_| {}));
    let seeds = match number("RAYMESH_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("RAYMESH_SIM_FIRST").unwrap_or(0);
            first..first + number("RAYMESH_SIM_SEEDS").unwrap_or(3_000)
        }
    };
    let one = number("RAYMESH_SIM_THREADS") == Some(1);
    let halves = if one {
        vec![run(0, &seeds), run(1, &seeds)]
    } else {
        thread::scope(|scope| {
            let other = scope.spawn(|| run(1, &seeds));
            vec![run(0, &seeds), other.join().unwrap()]
        })
    };
    let (mut failures, mut totals) = (Vec::new(), Stats::default());
    for (some, stats) in halves {
        failures.extend(some);
        totals.add(&stats);
    }
    println!("{totals:?}");
    let _ = std::panic::take_hook();
    if let Some(first) = failures.iter().min_by_key(|failure| failure.len()) {
        let heads: Vec<_> = failures
            .iter()
            .filter_map(|it| it.lines().next())
            .map(|it| it.chars().take(300).collect::<String>())
            .collect();
        panic!("{} seeds fail:\n{}\n\n{first}", failures.len(), heads.join("\n"));
    }
    if seeds.end - seeds.start >= 1_000 {
        // What is not played proves nothing.
        for (what, count) in totals.counts() {
            assert!(count > 0, "no run has any {what}");
        }
    }
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 0..20 {
        let (first, second) = (raymesh_sim::run(seed), raymesh_sim::run(seed));
        assert_eq!(format!("{first:?}"), format!("{second:?}"), "seed {seed}");
    }
}
