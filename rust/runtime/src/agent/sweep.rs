//! Ending what workers have started when their zygote, whose task that is, was killed with them.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// In the environment of workers and of what they start (`raymesh/_worker/kin.py`).
const MARK: &[u8] = b"RAYMESH_WORKER_PID=";

/// Kills processes in the session or with the environment of one of these dead workers, until none
/// is left.
pub fn kill_left_behind(workers: &BTreeSet<u32>) {
    // A process that forks faster than it is found ends up in the next round.
    for _ in 0..16 {
        let found: Vec<u32> = processes().filter(|pid| belongs(*pid, workers)).collect();
        if found.is_empty() {
            return;
        }
        for pid in found {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn belongs(pid: u32, workers: &BTreeSet<u32>) -> bool {
    let Some((state, session)) = state_and_session(pid) else { return false };
    if matches!(state, b'Z' | b'X') {
        return false;
    }
    workers.contains(&session)
        || workers.contains(&pid)
        || marked(pid).is_some_and(|worker| workers.contains(&worker))
}

/// From `/proc/PID/stat`; the name in parentheses may contain anything.
fn state_and_session(pid: u32) -> Option<(u8, u32)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let text = std::str::from_utf8(stat.get(after..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.nth(2)?.parse().ok()?))
}

fn marked(pid: u32) -> Option<u32> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let entry = environ.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(MARK))?;
    std::str::from_utf8(entry).ok()?.parse().ok()
}
