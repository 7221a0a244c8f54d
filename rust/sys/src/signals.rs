//! Signals and threads.

use std::ptr;

/// Keeps all signals from the calling thread: they go to the threads of the user's program, whose
/// waits they interrupt.
pub fn block_all() {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initializes the set that it is given; the mask of this thread alone changes.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
    }
}
