#![allow(clippy::disallowed_methods)] // real files, real waits

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use raymesh_sys::fd::eventfd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("raymesh-journal-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn wake() -> OwnedFd {
    eventfd().unwrap()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(30), "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_was_appended_is_there_in_order_and_what_came_before_a_snapshot_is_not() {
    let path = folder("order");
    let mut journal = Journal::create(&path, b"about", 0, b"empty", wake()).unwrap();
    for number in 1..=10 {
        assert_eq!(journal.append(vec![number]), u64::from(number));
        if number == 7 {
            journal.snapshot(b"seven".to_vec());
        }
    }
    until("committed", || journal.committed() == 10);
    drop(journal);
    let saved = read(&path).unwrap().unwrap();
    assert_eq!(saved.about, b"about");
    assert_eq!(saved.snapshot, Some((7, b"seven".to_vec())));
    assert_eq!(saved.log, [(8, vec![8]), (9, vec![9]), (10, vec![10])]);
    assert_eq!(saved.last(), 10);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_journal_goes_with_its_cluster() {
    let path = folder("end");
    let journal = Journal::create(&path, b"", 0, b"", wake()).unwrap();
    journal.remove();
    assert!(!path.exists());
    assert!(read(&path).unwrap().is_none());
}

#[test]
fn two_heads_do_not_write_one_journal() {
    let path = folder("two");
    let first = Journal::create(&path, b"", 0, b"", wake()).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("another head runs with it"), "{error}");
    let error = Journal::create(&path, b"", 0, b"", wake()).unwrap_err().to_string();
    assert!(error.contains("another head runs with it"), "{error}");
    first.remove();
}

#[test]
fn a_journal_of_another_version_or_of_something_else_is_refused() {
    let path = folder("foreign");
    drop(Journal::create(&path, b"", 0, b"", wake()).unwrap());
    {
        let database = Database::create(path.join(FILE)).unwrap();
        let write = database.begin_write().unwrap();
        write.open_table(ABOUT).unwrap().insert("form", &b"raymesh 9.9 7"[..]).unwrap();
        write.commit().unwrap();
    }
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("of raymesh 9.9 7, and this is raymesh 0"), "{error}");
    for nonsense in [&b""[..], b"no database", &[0; 70_000]] {
        std::fs::write(path.join(FILE), nonsense).unwrap();
        let read = read(&path);
        assert!(matches!(read, Err(StartError::Journal { .. }) | Ok(None)), "{read:?}");
    }
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn it_is_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let path = folder("mode");
    let journal = Journal::create(&path, b"secret", 0, b"", wake()).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    journal.remove();
}

#[test]
fn a_commit_wakes_whoever_waits_for_it() {
    let path = folder("wake");
    let event = wake();
    let mine = event.as_fd().try_clone_to_owned().unwrap();
    let mut journal = Journal::create(&path, b"", 0, b"", event).unwrap();
    journal.append(vec![1]);
    let timeout = Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&mine, PollFlags::IN)], Some(&timeout)), Ok(1));
    assert_eq!(journal.committed(), 1);
    journal.remove();
}

/// As a head leaves it that is killed: never closed.
fn left_behind(path: &Path) -> Vec<u8> {
    let mut journal = Journal::create(path, b"about", 0, &[7; 20_000], wake()).unwrap();
    for number in 1..=60_u8 {
        journal.append(vec![number; 500]);
        if number % 6 == 0 {
            until("committed", || journal.committed() == u64::from(number));
        }
    }
    let bytes = std::fs::read(path.join(FILE)).unwrap();
    journal.remove();
    bytes
}

/// A damaged one is refused, or reads as it was; what was written last may be missing: it may have been cut
/// off by the death of the machine, before anybody had heard of it.
#[test]
fn half_of_a_journal_is_never_taken_for_all_of_it() {
    let path = folder("damage");
    let whole = left_behind(&path);
    std::fs::create_dir_all(&path).unwrap();
    let file = path.join(FILE);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let mut refused = 0;
    for round in 0..300 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes[random(whole.len())] ^= 1 << random(8),
            1 => bytes.truncate(random(whole.len())),
            _ => {
                let (at, len) = (random(whole.len() - 4096), random(4096));
                bytes[at..at + len].fill_with(|| random(256) as u8);
            }
        }
        std::fs::write(&file, &bytes).unwrap();
        match read(&path) {
            Err(StartError::Journal { trouble: Trouble::Damaged, .. }) => refused += 1,
            Ok(Some(saved)) => {
                assert_eq!((&saved.about[..], saved.snapshot), (&b"about"[..], Some((0, vec![7; 20_000]))));
                let numbers: Vec<u64> = saved.log.iter().map(|(number, _)| *number).collect();
                assert!(
                    numbers == (1..=60).collect::<Vec<_>>() || numbers == (1..=54).collect::<Vec<_>>(),
                    "{numbers:?}"
                );
                assert!(saved.log.iter().all(|(number, record)| *record == vec![*number as u8; 500]));
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
    assert!(refused > 150, "only {refused} of 300 were refused");
    std::fs::remove_dir_all(&path).unwrap();
}
