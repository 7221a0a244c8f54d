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
//! - [`links`]: other hosts. [`joining`]: how hosts come together. [`seeking`]: how one finds its head.
//!   [`guide`]: how another shows it the way. [`news`], [`barriers`]: the order of what they say.
//! - [`headship`]: what only the head has. [`lines`]: its words to the hosts and theirs to it.
//!   [`journal`]: what a head that is started again goes on from.
//! - [`copies`]: one copy of another host's block for all processes here. [`pulls`]: how the bytes come and go.
//! - [`bulk`]: threads that move them. [`opening`]: their connections. [`spread`]: who gets a block from whom.
//! - [`memory`]: extents of the object arena, also of the dead.
//! - [`streams`], [`output`]: what workers print.
//! - [`poll`]: what the loop waits for. [`limits`]: open files.

mod bulk;
mod config;
mod copies;
mod end;
mod error;
mod guide;
mod headship;
mod joining;
mod journal;
mod limits;
mod lines;
mod links;
mod memory;
mod nursery;
mod opening;
mod output;
mod poll;
mod pulls;
mod route;
mod run;
mod seeking;
mod spread;
mod streams;
mod sweep;
mod workers;
mod zygote;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use raymesh_core::between::{barriers, news};
use raymesh_core::host::Host;
use raymesh_shm::{Segment, Shape};
use raymesh_sys::fd::{eventfd, eventfd_signal};
use raymesh_wire::{HostId, ProcId};

pub use config::{AgentConfig, Head, Member, Role, Secret};
pub use error::StartError;
pub use output::{OutputLine, OutputReader};

use output::OutputQueue;
use run::{Command, Runner};

/// The head, and the only host of local mode. Zero is nobody: a zero `ProcId` means a closed mailbox.
pub const FIRST_HOST: HostId = HostId(1);

/// Processes at once on a host.
const SLOTS: u32 = 8192;

/// Called once when the host has lost its cluster, with the reason.
pub type OnLost = Box<dyn FnOnce(String) + Send>;

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
    address: Option<SocketAddr>,
    secret: Option<Secret>,
    head: Option<SocketAddr>,
    on_lost: Arc<Mutex<Hook>>,
}

/// Who is to be told of the loss of the cluster, and the reason; whichever is known first waits for the other.
#[derive(Default)]
struct Hook {
    tell: Option<OnLost>,
    reason: Option<String>,
}

impl Hook {
    /// What is to be told now, once.
    fn due(&mut self) -> Option<(OnLost, String)> {
        if self.tell.is_none() || self.reason.is_none() {
            return None;
        }
        self.tell.take().zip(self.reason.take())
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
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
        let new_eventfd = || eventfd().map(Arc::new).map_err(StartError::system("an eventfd"));
        let (event, wake) = (new_eventfd()?, new_eventfd()?);
        let joining::Place { host, links, controller, now } = joining::take_up(&config.role, &wake)?;
        let shape = Shape { host, slots: SLOTS, arena: config.store_bytes };
        let segment = Segment::create(shape)
            .map_err(|source| StartError::Memory { bytes: config.store_bytes, source })?;
        let address = links.as_ref().map(|links| links.address());
        let secret = links.as_ref().map(|links| links.secret.clone());
        let head = links.as_ref().and_then(|links| links.guide.as_ref()).map(|guide| guide.head());
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
            links,
            controller,
            now,
        };
        let on_lost = Arc::new(Mutex::new(Hook::default()));
        let hook = Arc::clone(&on_lost);
        let handle = thread::Builder::new()
            .name("raymesh-agent".to_owned())
            .spawn(move || {
                // However the thread ends: nobody waits for lines that do not come.
                let _close = CloseOnDrop(Arc::clone(&parts.output));
                match Runner::start(parts) {
                    Ok(mut runner) => {
                        let _ = started.send(runner.join_in());
                        let reason = runner.run();
                        tell_of_loss(&hook, |hook| hook.reason = reason);
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
        let agent =
            Self { segment, eventfd: event, output, wake, thread, pid, address, secret, head, on_lost };
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
    pub fn driver(&self) -> ProcId {
        Host::driver_slot(self.segment.host())
    }

    /// Where other hosts reach this one; none if it is alone.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What others need to join the cluster through this host, beside its address; none if it is alone.
    #[must_use]
    pub const fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// Where messages for the controller go.
    #[must_use]
    pub const fn controller(&self) -> ProcId {
        ProcId::CONTROLLER
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
                let (name, ip) = ("raymesh".to_owned(), String::new());
                output.add(OutputLine { proc, pid, name, is_stderr: true, ip, text });
            }
        })
    }

    /// Has `tell` called when the host loses its cluster: the head is gone, or has declared this host dead.
    /// Everything of this host ends then.
    pub fn on_lost(&self, tell: OnLost) {
        // It may have been lost already.
        tell_of_loss(&self.on_lost, |hook| hook.tell = Some(tell));
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

    /// Of a host that has joined: where its head was then.
    #[must_use]
    pub const fn head(&self) -> Option<SocketAddr> {
        self.head
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

fn tell_of_loss(hook: &Mutex<Hook>, learn: impl FnOnce(&mut Hook)) {
    let due = {
        let mut hook = hook.lock();
        learn(&mut hook);
        hook.due()
    };
    if let Some((tell, reason)) = due {
        tell(reason);
    }
}

struct CloseOnDrop(Arc<OutputQueue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
