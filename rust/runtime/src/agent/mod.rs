//! A host's agent: the thread that decides, starts and watches, and that owns what is shared.
//!
//! In local mode it is a thread of the driver; it never needs the GIL, and never blocks but in its one
//! `epoll`. It hosts the state machines of the controller and of the host, and carries out what they
//! want.
//!
//! - [`config`], [`error`]: what it is told, and why it does not start.
//! - [`run`]: its loop. [`route`]: messages in, effects out. [`end`]: its orderly end.
//! - [`workers`]: worker processes, from fork to burial.
//! - [`nursery`]: which zygote forks them, and what is imported ahead; [`zygote`]: one zygote.
//! - [`sweep`]: ending what workers leave behind when their zygote was killed.
//! - [`memory`]: extents of the object arena; [`orphans`]: blocks of dead processes.
//! - [`streams`], [`output`]: what workers print.
//! - [`poll`]: what the loop waits for. [`limits`]: open files.

mod config;
mod end;
mod error;
mod limits;
mod memory;
mod nursery;
mod orphans;
mod output;
mod poll;
mod route;
mod run;
mod streams;
mod sweep;
mod workers;
mod zygote;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use raymesh_core::host::Host;
use raymesh_shm::{Segment, Shape};
use raymesh_sys::fd::{eventfd, eventfd_signal};
use raymesh_wire::{HostId, ProcId};

pub use config::AgentConfig;
pub use error::StartError;
pub use output::{OutputLine, OutputReader};

use output::OutputQueue;
use run::{Command, Runner};

/// The host of local mode. Zero is nobody: a zero `ProcId` means a closed mailbox.
pub const LOCAL_HOST: HostId = HostId(1);

/// Processes at once on a host.
const SLOTS: u32 = 8192;

/// A running agent. Dropping it ends it as [`Self::stop`] does.
///
/// In a fork of the process that started it, it is a shell: nothing it does touches the runtime, which
/// goes on in the parent.
#[derive(Debug)]
pub struct Agent {
    segment: Arc<Segment>,
    eventfd: Arc<OwnedFd>,
    output: OutputReader,
    wake: Arc<OwnedFd>,
    thread: Mutex<Option<Running>>,
    /// The process that started it.
    pid: u32,
}

#[derive(Debug)]
struct Running {
    commands: Sender<Command>,
    handle: JoinHandle<()>,
}

impl Agent {
    /// Makes the shared memory, and starts the thread and the first zygote. The mailbox of
    /// [`Self::driver`] is open when this returns; workers may still be on their way.
    ///
    /// # Errors
    /// When the system refuses something; nothing is left behind then.
    pub fn start(config: AgentConfig) -> Result<Self, StartError> {
        let shape = Shape { host: LOCAL_HOST, slots: SLOTS, arena: config.store_bytes };
        let segment = Segment::create(shape)
            .map_err(|source| StartError::Memory { bytes: config.store_bytes, source })?;
        let new_eventfd = || eventfd().map(Arc::new).map_err(StartError::system("an eventfd"));
        let (event, wake) = (new_eventfd()?, new_eventfd()?);
        let output = Arc::new(OutputQueue::default());
        let (commands, receiver) = mpsc::channel();
        let (started, starting) = mpsc::channel();
        let parts = run::Parts {
            config,
            segment: Arc::clone(&segment),
            eventfd: Arc::clone(&event),
            wake: Arc::clone(&wake),
            output: Arc::clone(&output),
            commands: receiver,
        };
        let handle = thread::Builder::new()
            .name("raymesh-agent".to_owned())
            .spawn(move || {
                // However the thread ends: nobody waits for lines that do not come.
                let _close = CloseOnDrop(Arc::clone(&parts.output));
                match Runner::start(parts) {
                    Ok(mut runner) => {
                        let _ = started.send(Ok(()));
                        runner.run();
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                }
            })
            .map_err(StartError::system("a thread"))?;
        let thread = Mutex::new(Some(Running { commands, handle }));
        let pid = std::process::id();
        let output = OutputReader::new(output, Arc::clone(&wake));
        let agent = Self { segment, eventfd: event, output, wake, thread, pid };
        match starting.recv() {
            Ok(result) => result.map(|()| agent),
            Err(_) => Err(StartError::Panicked),
        }
    }

    #[must_use]
    pub fn segment(&self) -> Arc<Segment> {
        Arc::clone(&self.segment)
    }

    /// The driver's process id in raymesh. Its mailbox is open.
    #[must_use]
    pub const fn driver(&self) -> ProcId {
        Host::driver_slot(LOCAL_HOST)
    }

    /// Where messages for the agent and for the controller go.
    #[must_use]
    pub const fn controller(&self) -> ProcId {
        ProcId::agent(LOCAL_HOST)
    }

    /// A write to it tells the agent to look into its mailbox.
    #[must_use]
    pub fn agent_eventfd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }

    /// Wants modules to be imported ahead in the zygote. Returns at once.
    pub fn preload(&self, modules: Vec<String>) {
        if !modules.is_empty() {
            self.command(Command::Preload(modules));
        }
    }

    /// Wants every zygote to import these when it has nothing else to do; for modules whose import is quick
    /// and has no effects. Returns at once.
    pub fn import_early(&self, modules: Vec<String>) {
        if !modules.is_empty() {
            self.command(Command::ImportEarly(modules));
        }
    }

    /// Takes what processes print. Goes on after the end of the agent, until the last line was taken.
    #[must_use]
    pub fn output(&self) -> OutputReader {
        self.output.clone()
    }

    /// [`OutputReader::next`] of [`Self::output`].
    #[must_use]
    pub fn next_output(&self, timeout: Duration) -> Option<Vec<OutputLine>> {
        self.output.next(timeout)
    }

    /// What shows a text to the user, as output of the driver's own runtime.
    #[must_use]
    pub fn notifier(&self) -> Box<dyn Fn(String) + Send> {
        let (output, proc, pid) = (self.output.clone(), self.driver(), self.pid);
        Box::new(move |text| {
            for text in text.lines() {
                let text = text.to_owned();
                output.add(OutputLine { proc, pid, name: "raymesh".to_owned(), is_stderr: true, text });
            }
        })
    }

    /// Ends everything: workers get a moment to end in an orderly way, what is left of them and of what
    /// they have started is killed, what they have printed is taken in. Returns when no process is
    /// left. Once ended, does nothing.
    pub fn stop(&self) {
        if self.is_foreign() {
            return;
        }
        let Some(Running { commands, handle }) = self.thread.lock().take() else { return };
        let _ = commands.send(Command::Stop);
        eventfd_signal(&*self.wake);
        // A panic of the agent's thread has been printed; its processes have ended with it.
        let _ = handle.join();
    }

    fn command(&self, command: Command) {
        if self.is_foreign() {
            return;
        }
        if let Some(running) = &*self.thread.lock() {
            let _ = running.commands.send(command);
            eventfd_signal(&*self.wake);
        }
    }

    /// Whether this is a fork of the process that started the agent: its thread is not here.
    fn is_foreign(&self) -> bool {
        self.pid != std::process::id()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.is_foreign() {
            // Not even its locks are to be touched: the thread that held one may not exist here.
            std::mem::forget(self.thread.get_mut().take());
        } else {
            self.stop();
        }
    }
}

struct CloseOnDrop(Arc<OutputQueue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
