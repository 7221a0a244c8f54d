//! The helper thread: reads the mail while no thread of the process waits, and keeps the timers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Proc;

pub(super) fn spawn(proc: &Arc<Proc>) -> std::io::Result<()> {
    let endpoint = Arc::clone(&proc.endpoint);
    let weak = Arc::downgrade(proc);
    std::thread::Builder::new()
        .name("raymesh-io".to_owned())
        .stack_size(256 * 1024)
        .spawn(move || {
            raymesh_sys::signals::block_all();
            let mut timeout = None;
            loop {
                endpoint.helper_wait(timeout);
                match turn(&weak) {
                    Some(next) => timeout = next,
                    None => return,
                }
            }
        })
        .map(drop)
}

/// One round of work. Answers how long to sleep at most; None: the process's runtime is over.
fn turn(weak: &Weak<Proc>) -> Option<Option<Duration>> {
    let proc = weak.upgrade()?;
    if proc.is_stopping() {
        return None;
    }
    proc.drain();
    Some(proc.keep_time())
}
