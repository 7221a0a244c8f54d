//! Ends this process with its driver, whatever its other threads do.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, getpid, kill_process};

/// Watches `driver` (a pidfd) on a thread of its own; kills this process once that has ended.
///
/// # Errors
/// The system refuses a thread.
pub fn end_with(driver: OwnedFd) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("raymesh-life".to_owned())
        .stack_size(64 * 1024)
        .spawn(move || {
            raymesh_sys::signals::block_all();
            loop {
                let mut fds = [PollFd::new(&driver, PollFlags::IN)];
                if poll(&mut fds, None).is_ok_and(|ready| ready > 0) {
                    let me: Pid = getpid();
                    let _ = kill_process(me, Signal::KILL);
                }
            }
        })
        .map(drop)
}
