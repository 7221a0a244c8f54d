//! Words for people: resources, signals, deaths.

use std::fmt::Write;

use raymesh_wire::control::{Death, DeathCause, ExitReason};
use raymesh_wire::{HostId, ResourceSet};

use super::hosts::Host;

/// Each host has a resource of this name and its address, as in Ray.
const OF_HOST: &str = "node:";

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
pub(crate) fn death(death: &Death) -> String {
    match &death.cause {
        DeathCause::Exited { code: 0 } => "exited (code 0)".to_owned(),
        DeathCause::Exited { code } => format!("exited with code {code}"),
        DeathCause::Signaled { signal } => format!("was killed by {}", signal_name(*signal)),
        DeathCause::Requested { reason: ExitReason::Retired } => "was retired after idling".to_owned(),
        DeathCause::Requested { reason: ExitReason::OutOfScope } => {
            "was ended because nobody held a handle to its actor any more".to_owned()
        }
        DeathCause::Requested { reason: ExitReason::Shutdown } => "was shut down".to_owned(),
        DeathCause::Requested { reason: ExitReason::Moved } => {
            "was ended because its actor goes on on another host".to_owned()
        }
        DeathCause::Killed => "was killed by request".to_owned(),
        DeathCause::HostLost if death.host.is_empty() => "was on a host that was lost".to_owned(),
        DeathCause::HostLost => format!("was on a host that was lost: {}", death.host),
    }
}

/// Which host was lost, and why: `two (node IP: 10.0.0.3, node ID: 03ab...), its process has ended`.
pub(super) fn lost_host(id: HostId, host: &Host, why: &str, drained: Option<&str>) -> String {
    let is_address = |name: &&str| name.starts_with(OF_HOST) && !name.starts_with("node:__");
    let address = host.total.iter().map(|(name, _)| name).find(is_address);
    let address = address.map_or("not known", |name| &name[OF_HOST.len()..]);
    let why = match drained {
        Some("") => "it was drained".to_owned(),
        Some(reason) => format!("it was drained: {reason}"),
        None => why.to_owned(),
    };
    let mut node = String::new();
    for byte in id.to_ray_bytes() {
        // Writing to a string cannot fail.
        let _ = write!(node, "{byte:02x}");
    }
    format!("{} (node IP: {address}, node ID: {node}), {why}", host.name)
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
