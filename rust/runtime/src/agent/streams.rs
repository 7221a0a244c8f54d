//! The reading ends of the pipes into which workers and zygotes print.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use raymesh_wire::ProcId;
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;

use super::OutputLine;
use super::output::{LastLines, Lines, OutputQueue, Unnamed};
use super::poll::{Poller, Source, Token};

/// Read from one stream before another gets its turn.
const TURN: usize = 256 << 10;

/// Whose a stream is.
#[derive(Clone, Debug)]
pub struct Origin {
    pub proc: ProcId,
    pub pid: u32,
    pub is_stderr: bool,
}

#[derive(Debug)]
struct Stream {
    fd: OwnedFd,
    origin: Origin,
    lines: Lines,
}

/// See the module.
#[derive(Debug)]
pub struct Streams {
    open: BTreeMap<Token, Stream>,
    /// Not read while the queue is full; named by numbers that are no tokens.
    paused: Vec<Stream>,
    queue: Arc<OutputQueue>,
    /// What each worker printed last.
    last: BTreeMap<ProcId, LastLines>,
    buffer: Vec<u8>,
}

/// A pipe: the end that the agent reads, not blocking, and the end that the process writes.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((read, write))
}

impl Streams {
    pub fn new(queue: Arc<OutputQueue>) -> Self {
        Self {
            open: BTreeMap::new(),
            paused: Vec::new(),
            queue,
            last: BTreeMap::new(),
            buffer: vec![0; 64 << 10],
        }
    }

    /// Reads `fd` from now on. `unnamed` says what stands before lines that do not say it themselves.
    pub fn add(
        &mut self,
        poller: &mut Poller,
        fd: OwnedFd,
        origin: Origin,
        unnamed: Unnamed,
    ) -> io::Result<()> {
        rustix::fs::fcntl_setfl(&fd, OFlags::NONBLOCK)?;
        self.last.entry(origin.proc).or_default();
        self.resume_one(poller, Stream { fd, origin, lines: Lines::new(unnamed) })
    }

    fn resume_one(&mut self, poller: &mut Poller, stream: Stream) -> io::Result<()> {
        let token = poller.add(&stream.fd, Source::Stream)?;
        self.open.insert(token, stream);
        Ok(())
    }

    /// The stream has something. Gives each line to `also`.
    pub fn read(&mut self, poller: &mut Poller, token: Token, also: &mut dyn FnMut(&Origin, &str)) {
        let Some(stream) = self.open.get_mut(&token) else { return };
        let mut last = self.last.get_mut(&stream.origin.proc);
        let also = &mut |origin: &Origin, text: &str| {
            if let Some(last) = &mut last {
                last.push(text);
            }
            also(origin, text);
        };
        let (ended, room) = stream.read(&mut self.buffer, &self.queue, also);
        if ended {
            self.close(poller, token);
        } else if !room {
            self.pause(poller);
        }
    }

    fn close(&mut self, poller: &mut Poller, token: Token) {
        if let Some(stream) = self.open.remove(&token) {
            poller.remove(token, &stream.fd);
        }
    }

    fn pause(&mut self, poller: &mut Poller) {
        for (token, stream) in std::mem::take(&mut self.open) {
            poller.remove(token, &stream.fd);
            self.paused.push(stream);
        }
    }

    /// Somebody has taken lines: reads on if there is room.
    pub fn resume(&mut self, poller: &mut Poller) {
        if self.paused.is_empty() || !self.queue.has_room() {
            return;
        }
        for stream in std::mem::take(&mut self.paused) {
            // Refused only for want of memory: then this output is lost, not the program.
            let _ = self.resume_one(poller, stream);
        }
    }

    /// Takes in what dead processes have left in their pipes, room or not. Streams that somebody
    /// still holds open stay.
    pub fn drain(&mut self, poller: &mut Poller, of: impl Fn(&Origin) -> bool) {
        let Self { open, paused, queue, last, buffer } = self;
        let also = &mut |origin: &Origin, text: &str| {
            if let Some(last) = last.get_mut(&origin.proc) {
                last.push(text);
            }
        };
        let mut ended = Vec::new();
        for (token, stream) in open.iter_mut().filter(|(_, stream)| of(&stream.origin)) {
            if stream.read(buffer, queue, also).0 {
                ended.push(*token);
            }
        }
        paused.retain_mut(|stream| !of(&stream.origin) || !stream.read(buffer, queue, also).0);
        for token in ended {
            self.close(poller, token);
        }
    }

    /// What a dead worker printed last, oldest line first.
    pub fn take_last(&mut self, proc: ProcId) -> String {
        self.last.remove(&proc).unwrap_or_default().text()
    }

    /// Ends all streams: last lines without their end are lines.
    pub fn finish(&mut self, poller: &mut Poller) {
        self.drain(poller, |_| true);
        let open = std::mem::take(&mut self.open);
        for (token, mut stream) in open {
            poller.remove(token, &stream.fd);
            stream.finish(&self.queue, &mut |_, _| {});
        }
        for mut stream in std::mem::take(&mut self.paused) {
            stream.finish(&self.queue, &mut |_, _| {});
        }
    }
}

impl Stream {
    /// Whether the stream has ended, and whether the queue has room for more.
    fn read(
        &mut self,
        buffer: &mut [u8],
        queue: &OutputQueue,
        also: &mut dyn FnMut(&Origin, &str),
    ) -> (bool, bool) {
        let mut room = true;
        let mut taken = 0;
        while taken < TURN {
            let len = match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(0) => {
                    self.finish(queue, also);
                    return (true, room);
                }
                Ok(len) => len,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => return (true, room),
            };
            taken += len;
            let origin = &self.origin;
            self.lines.feed(buffer.get(..len).unwrap_or_default(), &mut |name, text| {
                also(origin, &text);
                room &= queue.push(line(origin, name, text));
            });
        }
        (false, room)
    }

    fn finish(&mut self, queue: &OutputQueue, also: &mut dyn FnMut(&Origin, &str)) {
        let origin = &self.origin;
        self.lines.finish(&mut |name, text| {
            also(origin, &text);
            queue.push(line(origin, name, text));
        });
    }
}

fn line(origin: &Origin, name: &str, text: String) -> OutputLine {
    let Origin { proc, pid, is_stderr } = *origin;
    OutputLine { proc, pid, name: name.to_owned(), is_stderr, ip: String::new(), text }
}
