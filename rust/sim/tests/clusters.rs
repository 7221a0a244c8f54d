//! Thousands of random clusters. `RAYMESH_SIM_SEEDS=20000` tries more, `RAYMESH_SIM_SEED=17` one.

#![allow(clippy::disallowed_methods)] // which seeds to try comes from the environment

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_schedule_of_crashes_and_delays_loses_a_task_an_object_or_a_resource() {
    std::panic::set_hook(Box::new(|_| {}));
    let seeds = match number("RAYMESH_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RAYMESH_SIM_SEEDS").unwrap_or(1_000),
    };
    let mut failures = Vec::new();
    let mut totals = raymesh_sim::Stats::default();
    for seed in seeds {
        match raymesh_sim::run(seed) {
            Ok(stats) => {
                totals.events += stats.events;
                totals.tasks += stats.tasks;
                totals.actors += stats.actors;
                totals.groups += stats.groups;
                totals.deaths += stats.deaths;
                totals.hosts_lost += stats.hosts_lost;
                totals.errors += stats.errors;
                totals.found += stats.found;
                totals.survived += stats.survived;
                totals.restarts += stats.restarts;
                totals.lost += stats.lost;
                totals.cuts += stats.cuts;
                totals.fenced += stats.fenced;
                totals.rejoined += stats.rejoined;
                totals.unrebuildable += stats.unrebuildable;
            }
            Err(failure) => failures.push(failure),
        }
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
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 0..20 {
        let (first, second) = (raymesh_sim::run(seed), raymesh_sim::run(seed));
        assert_eq!(format!("{first:?}"), format!("{second:?}"), "seed {seed}");
    }
}
