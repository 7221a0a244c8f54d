//! Life and death of processes.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal};

/// A descriptor that becomes readable when `pid` has ended.
///
/// # Errors
/// When there is no such process.
pub fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(to_pid(pid)?, PidfdFlags::empty())?)
}

/// Sends SIGKILL through a pidfd: never hits a later process of the same number.
///
/// # Errors
/// When the process has ended.
pub fn pidfd_kill(pidfd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::process::pidfd_send_signal(pidfd, Signal::KILL)?)
}

/// This process gets SIGKILL when the *thread* that forked it ends. Check [`parent`] afterwards: the
/// parent may have ended before.
///
/// # Errors
/// Never on Linux.
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Process id of the parent; 0 when it is outside this pid namespace.
#[must_use]
pub fn parent() -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Orphaned descendants become children of this process, so that it learns of their end.
///
/// # Errors
/// Never on Linux.
pub fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Name of the calling thread (of the process, on its main thread) in `ps` and `top`. Cut at 15
/// bytes; ends at the first zero byte.
///
/// # Errors
/// Never on Linux.
pub fn set_name(name: &str) -> io::Result<()> {
    let bytes: Vec<u8> = name.bytes().take_while(|byte| *byte != 0).take(15).collect();
    let name = CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(rustix::thread::set_name(&name)?)
}

fn to_pid(pid: u32) -> io::Result<Pid> {
    let raw = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    Pid::from_raw(raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests;
