//! `kill -9` of everything in turn: what is left behind, and who learns of it.

use std::io::BufRead;
use std::process::{Command, Stdio};

use raymesh_wire::TaskId;
use raymesh_wire::control::{DeathCause, LastCall};

use crate::support::{Driver, config, kill, mark, running, wait_running};

#[test]
fn the_children_of_a_killed_worker_die_with_it() {
    let mut driver = Driver::start(config());
    let worker = driver.lease();
    let sleepers = format!("sleep {}", mark(1));
    driver.command(worker, &format!("spawn {}", mark(1)));
    wait_running(&sleepers, true);
    let pid = driver.expect_line("something", |line| line.proc == worker).pid;
    kill(pid);
    assert_eq!(driver.expect_death(worker), DeathCause::Signaled { signal: libc::SIGKILL });
    wait_running(&sleepers, false);
    driver.stop();
}

#[test]
fn the_death_of_an_idle_worker_blames_no_call() {
    let mut driver = Driver::start(config());
    let worker = driver.lease();
    let pid = driver.expect_line("something", |line| line.proc == worker).pid;
    driver.command(worker, "print one");
    driver.expect_line("one", |line| line.text == "one");
    driver.command(worker, "print two");
    driver.expect_line("two", |line| line.text == "two");
    kill(pid);
    let death = driver.expect_news_of_death(worker);
    let task = TaskId { owner: driver.agent.driver(), seq: 1 };
    assert!(matches!(death.last_call, LastCall::Finished(it) | LastCall::Running(it) if it == task));
    assert!(death.last_output.ends_with("one\ntwo"), "{death:?}");
    assert_eq!(death.pid, pid);
    driver.stop();
}

#[test]
fn the_children_of_a_worker_that_ends_by_itself_die_with_it() {
    let mut driver = Driver::start(config());
    let worker = driver.lease();
    let sleepers = format!("sleep {}", mark(2));
    driver.command(worker, &format!("spawn {}", mark(2)));
    wait_running(&sleepers, true);
    driver.command(worker, "exit 3");
    assert_eq!(driver.expect_death(worker), DeathCause::Exited { code: 3 });
    wait_running(&sleepers, false);
    driver.stop();
}

#[test]
fn the_children_of_a_worker_do_not_survive_an_orderly_end() {
    let mut driver = Driver::start(config());
    let worker = driver.lease();
    let sleepers = format!("sleep {}", mark(3));
    driver.command(worker, &format!("spawn {}", mark(3)));
    wait_running(&sleepers, true);
    driver.stop();
    // Killed, and gone as soon as the system gets to it.
    wait_running(&sleepers, false);
}

#[test]
fn a_killed_zygote_takes_its_workers_along_and_is_replaced() {
    let mut config = config();
    config.session_name = format!("killed-{}", std::process::id());
    let session = config.session_name.clone();
    let mut driver = Driver::start(config);
    let worker = driver.lease();
    let sleepers = format!("sleep {}", mark(4));
    driver.command(worker, &format!("spawn {}", mark(4)));
    wait_running(&sleepers, true);
    kill(running(&session)[0]);
    assert_eq!(driver.expect_death(worker), DeathCause::Signaled { signal: libc::SIGKILL });
    wait_running(&sleepers, false);
    let next = driver.lease();
    driver.command(next, "print here");
    driver.expect_line("the next worker", |line| line.proc == next && line.text == "here");
    driver.stop();
}

fn kill_driver(number: &str) {
    let program = std::env::current_exe().unwrap();
    let mut driver = Command::new(program)
        .args(["role::driver", "--exact", "--nocapture"])
        .env("TEST_DRIVER", number)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(driver.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")));
    let sleepers = format!("sleep {number}");
    wait_running(&sleepers, true);
    let zygote = format!(
        "-c import os, sys\npath = os.read(0, 1 << 20).decode('utf-8', 'surrogateescape')\nif path: sys.path[:] = path.split('\\0')\nfrom raymesh._worker.zygote import main\nmain() {}",
        driver.id()
    );
    assert!(!running(&zygote).is_empty());
    driver.kill().unwrap();
    driver.wait().unwrap();
    wait_running(&sleepers, false);
    wait_running(&zygote, false);
}

#[test]
fn nothing_survives_a_killed_driver() {
    kill_driver(&mark(5));
}

#[test]
fn nothing_survives_a_driver_that_is_killed_while_the_zygote_imports() {
    kill_driver(&format!("{}.5", mark(6)));
}
