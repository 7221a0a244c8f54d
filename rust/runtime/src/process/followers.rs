//! Threads that wait while another one reads the mail.
//!
//! They sleep on a word of their own and not on a condition variable, whose waits go on after a signal
//! handler: the main thread of a user's program has to see Ctrl-C there too.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use raymesh_sys::futex::{self, Woken};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// Counts the occasions to look again.
    news: AtomicU32,
    waiting: AtomicUsize,
}

/// A follower who is about to look once more, and to sleep then: it is told what happens from now on.
pub(super) struct Following<'a> {
    followers: &'a Followers,
    seen: u32,
}

impl Followers {
    pub(super) fn join(&self) -> Following<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Following { followers: self, seen: self.news.load(Ordering::SeqCst) }
    }

    /// Has all of them look again. To be called after what they are to see has been done.
    pub(super) fn notify_all(&self) {
        // One that joins after this load looks before it sleeps, and sees it without being told.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.news.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&self.news);
        }
    }
}

impl Following<'_> {
    /// Sleeps until there is news or the time is over. True: a signal handler ran.
    pub(super) fn sleep(self, timeout: Option<Duration>) -> bool {
        matches!(futex::wait(&self.followers.news, self.seen, timeout), Ok(Woken::Interrupted))
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.followers.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
