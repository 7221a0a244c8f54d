//! What workers print arrives, whole.

use raymesh_wire::TaskId;
use raymesh_wire::control::{DeathCause, LastCall};

use crate::support::{Driver, config, set};

#[test]
fn the_last_words_of_a_crashing_worker_are_heard_before_its_death() {
    let mut driver = Driver::start(config());
    let worker = driver.lease();
    driver.command(worker, "abort");
    let death = driver.expect_news_of_death(worker);
    assert_eq!(death.cause, DeathCause::Signaled { signal: libc::SIGABRT });
    assert!(death.last_output.ends_with("last words"), "{death:?}");
    assert_eq!(death.last_call, LastCall::Running(TaskId { owner: driver.agent.driver(), seq: 1 }));
    let lines = driver.agent.next_output(std::time::Duration::ZERO).unwrap();
    assert!(lines.iter().any(|line| line.text.ends_with("last words")), "{lines:?}");
    driver.stop();
}

#[test]
fn what_is_printed_last_is_shown_though_its_line_has_no_end() {
    let mut config = config();
    set(&mut config, "TEST_EXIT", "7");
    config.prestart = 1;
    let mut driver = Driver::start(config);
    let last = driver.expect_line("the last line", |line| line.text == "no newline" && !line.is_stderr);
    assert_eq!(last.name, "tester");
    driver.stop();
}

#[test]
fn output_that_nobody_wants_blocks_nobody() {
    let mut config = config();
    config.capture_output = false;
    let mut driver = Driver::start(config);
    let worker = driver.lease();
    driver.command(worker, "print nothing");
    driver.command(worker, "exit 4");
    assert_eq!(driver.expect_death(worker), DeathCause::Exited { code: 4 });
    let lines = driver.stop();
    assert_eq!(lines, []);
}
