//! Words for people: resources, signals, deaths.

use std::fmt::Write;

use raymesh_wire::ResourceSet;
use raymesh_wire::control::{DeathCause, ExitReason};

/// `{CPU: 2, GPU: 0.5}`.
pub(super) fn resources(set: &ResourceSet) -> String {
    let mut out = String::from("{");
    for (name, amount) in set.iter() {
        let comma = if out.len() > 1 { ", " } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(out, "{comma}{name}: {}", amount.to_f64());
    }
    out.push('}');
    out
}

/// How a process ended: `was killed by SIGKILL`.
pub(crate) fn death(cause: &DeathCause) -> String {
    match cause {
        DeathCause::Exited { code: 0 } => "exited (code 0)".to_owned(),
        DeathCause::Exited { code } => format!("exited with code {code}"),
        DeathCause::Signaled { signal } => format!("was killed by {}", signal_name(*signal)),
        DeathCause::Requested { reason: ExitReason::Retired } => "was retired after idling".to_owned(),
        DeathCause::Requested { reason: ExitReason::OutOfScope } => {
            "was ended because nobody held a handle to its actor any more".to_owned()
        }
        DeathCause::Requested { reason: ExitReason::Shutdown } => "was shut down".to_owned(),
        DeathCause::Killed => "was killed by request".to_owned(),
        DeathCause::HostLost => "was on a host that was lost".to_owned(),
    }
}

/// What a process printed last, to be appended; empty if it printed nothing.
pub(crate) fn last_output(lines: &str) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("\nIts last output:\n  {}", lines.replace('\n', "\n  "))
}

fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(signal).ok().and_then(|n| NAMES.get(n.wrapping_sub(1)));
    name.map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}
