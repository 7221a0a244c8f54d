//! What the system knows of a TCP connection.

use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// How long an acknowledgement takes to come back, smoothed. It is the other system that acknowledges: a
/// process that stands still is not seen in it. None before there was one, and of what is no TCP socket.
#[must_use]
pub fn round_trip(socket: impl AsFd) -> Option<Duration> {
    // SAFETY: plain numbers, of which all zeros is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut len = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the system writes at most `len` bytes to `info`, and knows every descriptor that is none.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    (failed == 0 && info.tcpi_rtt > 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

#[cfg(test)]
mod tests;
