//! From start to end.

use std::time::Duration;

use raymesh_runtime::{Agent, StartError};

use crate::support::{Driver, config, running, set};

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn nothing_is_left_after_an_orderly_end() {
    let mut config = config();
    config.session_name = format!("orderly-{}", std::process::id());
    // Spare workers are not replaced while everything ends.
    config.prestart = 2;
    let session = config.session_name.clone();
    let mut driver = Driver::start(config);
    let worker = driver.lease();
    assert!(!running(&session).is_empty(), "the zygote carries the session's name");
    let pid = driver.expect_line("something", |line| line.proc == worker).pid;
    let lines = driver.stop();
    assert!(lines.iter().any(|line| line.text == "told to exit"), "{lines:?}");
    assert!(running(&session).is_empty());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "the worker is a zombie");
}

#[test]
fn a_stuck_worker_does_not_hold_up_the_end() {
    let mut driver = Driver::start(config());
    let worker = driver.lease();
    let pid = driver.expect_line("something", |line| line.proc == worker).pid;
    driver.command(worker, "hang");
    driver.stop();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn it_starts_again_and_again_without_leaking_descriptors() {
    // Other tests of this program open files meanwhile: count in a process of its own.
    let Ok(_) = std::env::var("TEST_ALONE") else {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["life::it_starts_again_and_again_without_leaking_descriptors", "--exact"]);
        assert!(alone.env("TEST_ALONE", "1").status().unwrap().success());
        return;
    };
    let config = config();
    Driver::start(config.clone()).stop();
    let before = open_files();
    for _ in 0..3 {
        let mut driver = Driver::start(config.clone());
        driver.lease();
        driver.stop();
    }
    assert_eq!(open_files(), before);
}

#[test]
fn an_interpreter_that_is_missing_is_named() {
    let mut config = config();
    config.python = vec!["/nowhere/python".into()];
    let error = Agent::start(config).unwrap_err();
    assert!(matches!(&error, StartError::Python { .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/python"), "{error}");
}

#[test]
fn a_zygote_that_cannot_import_raymesh_says_so_and_the_end_is_orderly() {
    let mut config = config();
    config.sys_path = vec!["/nowhere".to_owned()];
    let mut driver = Driver::start(config);
    driver.tell_controller(raymesh_wire::ToController::Demand {
        key: 1,
        job: raymesh_wire::JobId(1),
        resources: raymesh_wire::ResourceSet::from_iter([("CPU", raymesh_wire::Quantity::ONE)]),
        backlog: 1,
        env: raymesh_wire::Environment::default(),
        wish: raymesh_wire::Wish::default(),
        near: None,
    });
    driver.expect_line("the error", |line| line.text.contains("No module named 'raymesh"));
    driver.stop();
}

#[test]
fn workers_differ_in_random_numbers_and_have_no_foreign_descriptors() {
    let mut config = config();
    set(&mut config, "TEST_MODULES", "random");
    let mut driver = Driver::start(config);
    let workers = [driver.lease(), driver.lease()];
    let random = workers.map(|worker| {
        driver.expect_line("random", |line| line.proc == worker && line.text.starts_with("random:")).text
    });
    assert_ne!(random[0], random[1]);
    let fds = workers.map(|worker| {
        driver.expect_line("fds", |line| line.proc == worker && line.text.starts_with("fds:")).text
    });
    // Standard streams; then shared memory, eventfd and pidfd.
    for fds in fds {
        assert_eq!(fds.split(',').count(), 6, "{fds}");
    }
    driver.stop();
}

#[test]
fn after_the_end_there_is_no_output_to_wait_for() {
    let driver = Driver::start(config());
    driver.agent.stop();
    while driver.agent.next_output(Duration::ZERO).is_some() {}
    driver.agent.stop();
    assert_eq!(driver.agent.next_output(Duration::MAX), None);
}

#[test]
fn what_was_printed_last_can_be_taken_after_the_end() {
    let mut driver = Driver::start(config());
    let output = driver.agent.output();
    let worker = driver.lease();
    driver.command(worker, "print the last");
    drop(driver.agent);
    let lines: Vec<_> = std::iter::from_fn(|| output.next(Duration::MAX)).flatten().collect();
    assert!(lines.iter().any(|line| line.text == "told to exit"), "{lines:?}");
}
