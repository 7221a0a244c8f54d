//! One zygote: the Python process that forks workers, and the protocol spoken with it.
//!
//! `raymesh/_worker/zygote.py` is the other end and has the table of messages. The control socket
//! is the zygote's standard input, so nothing is inherited by chance, by it or by what the user's
//! program starts at the same moment.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use raymesh_wire::ProcId;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
};

use super::AgentConfig;

/// The zygote's program: `sys.path` is the first packet, since nothing can be imported before.
const BOOT: &str = "import os, sys\n\
    path = os.read(0, 1 << 20).decode('utf-8', 'surrogateescape')\n\
    if path: sys.path[:] = path.split('\\0')\n\
    from raymesh._worker.zygote import main\n\
    main()";

const PACKET: usize = 8 << 10;

/// What a zygote reports.
#[derive(Debug)]
pub enum Report {
    Ready,
    /// A module is about to be imported.
    Importing(String),
    /// A module could not be imported; it is left out.
    NotImported {
        module: String,
        reason: String,
    },
    /// Forks of this zygote would not be sound, because of the module (if not empty).
    Unsound {
        module: String,
        reason: String,
    },
    Forked {
        proc: ProcId,
        pid: u32,
        pidfd: OwnedFd,
    },
    /// Forked, but the descriptor that came along found no place here: too many files are open.
    Unheld {
        proc: ProcId,
        pid: u32,
    },
    NotForked {
        proc: ProcId,
        error: io::Error,
    },
    /// A worker has ended; `status` as of `wait`.
    Exited {
        pid: u32,
        status: i32,
    },
    /// The zygote has ended, or says what nobody understands.
    Gone,
}

/// A running zygote process.
#[derive(Debug)]
pub struct Zygote {
    child: Child,
    control: OwnedFd,
    pidfd: OwnedFd,
}

impl Zygote {
    /// Starts the process, from the thread with whose end it is to end. Returns the pipe of its
    /// standard error with it.
    pub fn spawn(
        config: &AgentConfig,
        segment: BorrowedFd<'_>,
        eventfd: BorrowedFd<'_>,
        open_files: u64,
    ) -> io::Result<(Self, OwnedFd)> {
        let (control, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (program, flags) = config.python.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(flags).arg("-c").arg(BOOT).arg(std::process::id().to_string());
        command.arg(format!("raymesh-{}", config.session_name));
        if let Some(env) = &config.env {
            command.env_clear().envs(env.iter().map(|(key, value)| (key, value)));
        }
        // A process group of its own: a Ctrl-C in the terminal is for the driver alone.
        command.process_group(0);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // The command holds the zygote's end of the socket, which must be closed for an end of file.
        drop(command);
        let pidfd = match raymesh_sys::process::pidfd_open(child.id()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        let stderr = child.stderr.take().map(OwnedFd::from);
        let zygote = Self { child, control, pidfd };
        let stderr = stderr.ok_or(io::ErrorKind::BrokenPipe)?;
        zygote.send(config.sys_path.join("\0").as_bytes(), &[])?;
        let mut setup = vec![b'S'];
        setup.extend_from_slice(&open_files.to_le_bytes());
        zygote.send(&setup, &[segment, eventfd])?;
        Ok((zygote, stderr))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Readable when there are reports.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    pub fn fork(&self, proc: ProcId, streams: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut packet = vec![b'F'];
        packet.extend_from_slice(&proc.as_u64().to_le_bytes());
        self.send(&packet, streams)
    }

    /// Import these; ends in another [`Report::Ready`].
    pub fn preload(&self, modules: &[String]) -> io::Result<()> {
        self.send(format!("P{}", modules.join("\0")).as_bytes(), &[])
    }

    /// Import these when there is nothing else to do. Not answered.
    pub fn import_early(&self, modules: &[String]) -> io::Result<()> {
        self.send(format!("L{}", modules.join("\0")).as_bytes(), &[])
    }

    /// Kill this worker. It is the zygote's child, so its pid cannot have gone to another.
    pub fn kill_worker(&self, pid: u32) {
        let mut packet = vec![b'K'];
        packet.extend_from_slice(&pid.to_le_bytes());
        let _ = self.send(&packet, &[]);
    }

    /// End, with everything below. Does not wait.
    pub fn quit(&self) {
        // Also when a fork of the driver holds a copy of this end of the socket.
        let _ = self.send(b"Q", &[]);
        let _ = rustix::net::shutdown(&self.control, Shutdown::Write);
    }

    pub fn kill(&self) {
        let _ = raymesh_sys::process::pidfd_kill(&self.pidfd);
    }

    /// Readable when the process has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits for the end of a process that has been told to end.
    pub fn reap(&mut self) {
        let _ = self.child.wait();
    }

    fn send(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.control, &[IoSlice::new(packet)], &mut ancillary, flags)?;
        Ok(())
    }

    /// The next report, if there is one.
    pub fn receive(&self) -> Option<Report> {
        let mut packet = [0; PACKET];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut into = [IoSliceMut::new(&mut packet)];
        let len = match rustix::net::recvmsg(&self.control, &mut into, &mut ancillary, flags) {
            Ok(got) => got.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return None,
            Err(_) => return Some(Report::Gone),
        };
        let mut fds = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fd = fds.next().and_then(|mut fds| fds.next());
        Some(parse(packet.get(..len).unwrap_or_default(), fd).unwrap_or(Report::Gone))
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // Whoever forgot to end it: it must not outlive the agent, nor become a zombie.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
            self.reap();
        }
    }
}

fn parse(packet: &[u8], fd: Option<OwnedFd>) -> Option<Report> {
    let (kind, body) = packet.split_first()?;
    let text = || {
        let (module, reason) = match body.iter().position(|byte| *byte == 0) {
            Some(at) => (&body[..at], &body[at + 1..]),
            None => (body, &body[..0]),
        };
        let owned = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (owned(module), owned(reason))
    };
    let word = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let proc = || Some(ProcId::from_u64(u64::from_le_bytes(body.get(..8)?.try_into().ok()?)));
    Some(match kind {
        b'R' => Report::Ready,
        b'M' => Report::Importing(text().0),
        b'B' => {
            let (module, reason) = text();
            Report::NotImported { module, reason }
        }
        b'U' => {
            let (module, reason) = text();
            Report::Unsound { module, reason }
        }
        b'C' => match (proc()?, word(8)?, fd) {
            (proc, pid, Some(pidfd)) => Report::Forked { proc, pid, pidfd },
            (proc, pid, None) => Report::Unheld { proc, pid },
        },
        b'E' => Report::NotForked {
            proc: proc()?,
            error: io::Error::from_raw_os_error(i32::try_from(word(8)?).ok()?),
        },
        b'X' => Report::Exited { pid: word(0)?, status: word(4)?.cast_signed() },
        _ => return None,
    })
}
