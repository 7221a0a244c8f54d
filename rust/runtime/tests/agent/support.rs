//! A driver in a test's hands, and a look at what processes there are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use raymesh_runtime::{Agent, AgentConfig, OutputLine};
use raymesh_shm::Endpoint;
use raymesh_wire::control::{Death, DeathCause};
use raymesh_wire::{
    Call, CallTarget, FromController, FunctionId, JobId, LeaseId, Message, ProcId, Quantity, ResourceSet,
    TaskId, ToController, Value, decode, encode,
};

/// Longest wait for anything: a test that needs it has failed.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// Two CPUs, the stand-in package, this program as worker.
pub fn config() -> AgentConfig {
    let resources = ResourceSet::from_iter([("CPU", Quantity(2 * Quantity::SCALE))]);
    let mut config = AgentConfig::new(vec![python().into()], resources, 64 << 20);
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let script = "import sys; print('\\n'.join(p for p in sys.path if p))";
    let found = std::process::Command::new(python()).args(["-c", script]).output().unwrap();
    let path = String::from_utf8(found.stdout).unwrap();
    config.sys_path.push(package.to_str().unwrap().to_owned());
    config.sys_path.extend(path.lines().map(str::to_owned));
    config.env = Some(std::env::vars_os().collect());
    set(&mut config, "TEST_PROGRAM", std::env::current_exe().unwrap());
    set(&mut config, "PYTHONDONTWRITEBYTECODE", "1");
    config
}

pub fn set(config: &mut AgentConfig, key: &str, value: impl Into<OsString>) {
    config.env.get_or_insert_default().push((key.into(), value.into()));
}

/// `RAYMESH_TEST_PYTHON`, the repository's environment, or whatever `python3` is.
fn python() -> PathBuf {
    if let Some(named) = std::env::var_os("RAYMESH_TEST_PYTHON") {
        return named.into();
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    if ours.exists() { ours } else { "python3".into() }
}

/// Started, and spoken to through its mailbox.
pub struct Driver {
    pub agent: Agent,
    pub endpoint: Endpoint,
    mail: Vec<(ProcId, Message)>,
    next: u32,
    lines: Vec<OutputLine>,
}

impl Driver {
    pub fn start(config: AgentConfig) -> Self {
        let agent = Agent::start(config).unwrap();
        let endpoint = Endpoint::new(agent.segment(), agent.driver());
        endpoint.set_agent_eventfd(agent.agent_eventfd().try_clone_to_owned().unwrap());
        Self { agent, endpoint, mail: Vec::new(), next: 1, lines: Vec::new() }
    }

    pub fn send(&self, to: ProcId, message: &Message) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes);
        self.endpoint.send(to, &bytes);
    }

    pub fn tell_controller(&self, message: ToController) {
        self.send(self.agent.controller(), &Message::ToController(message));
    }

    /// Waits for a message of which `pick` makes something; others stay.
    pub fn expect<T>(&mut self, what: &str, pick: impl Fn(&ProcId, &Message) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let mail = &mut self.mail;
            self.endpoint.try_drain(&mut |from, bytes| mail.push((from, decode(bytes).unwrap())));
            let found =
                mail.iter().enumerate().find_map(|(at, (from, message))| Some((at, pick(from, message)?)));
            if let Some((at, picked)) = found {
                mail.remove(at);
                return picked;
            }
            let left = WATCHDOG.saturating_sub(start.elapsed());
            if left == Duration::ZERO {
                let printed = self.agent.next_output(left);
                panic!("{what} does not come; got {:?}; printed {printed:?}", self.mail);
            }
            self.endpoint.attend().wait(Some(left));
        }
    }

    /// A worker for tasks of one CPU.
    pub fn lease(&mut self) -> ProcId {
        let key = self.next;
        self.next += 1;
        let resources = ResourceSet::from_iter([("CPU", Quantity::ONE)]);
        self.tell_controller(ToController::Demand {
            key,
            job: JobId(1),
            resources,
            backlog: 1,
            env: raymesh_wire::Environment::default(),
            wish: raymesh_wire::Wish::default(),
            near: None,
        });
        let worker = self.expect("a lease", |_, message| match message {
            Message::FromController(FromController::LeaseGranted { key: granted, worker, .. })
                if *granted == key =>
            {
                Some(*worker)
            }
            _ => None,
        });
        let resources = ResourceSet::from_iter([("CPU", Quantity::ONE)]);
        self.tell_controller(ToController::Demand {
            key,
            job: JobId(1),
            resources,
            backlog: 0,
            env: raymesh_wire::Environment::default(),
            wish: raymesh_wire::Wish::default(),
            near: None,
        });
        self.tell_controller(ToController::Watch { proc: worker });
        worker
    }

    pub fn command(&self, worker: ProcId, command: &str) {
        let call = Call {
            task: TaskId { owner: self.agent.driver(), seq: 1 },
            attempt: 0,
            target: CallTarget::Function { lease: LeaseId(0), function: FunctionId([0; 16]) },
            num_returns: 0,
            args: Value::Inline(Bytes::copy_from_slice(command.as_bytes())),
            args_object: None,
            deps: Vec::new(),
            refs: Vec::new(),
            dep_refs: Vec::new(),
            places: Vec::new(),
            options: Bytes::new(),
        };
        self.send(worker, &Message::Call(Box::new(call)));
    }

    pub fn expect_death(&mut self, worker: ProcId) -> DeathCause {
        self.expect_news_of_death(worker).cause
    }

    pub fn expect_news_of_death(&mut self, worker: ProcId) -> Death {
        self.expect("a death", |_, message| match message {
            Message::FromController(FromController::Died { proc, death }) if *proc == worker => {
                Some(death.clone())
            }
            _ => None,
        })
    }

    /// Waits for a line, and answers it.
    pub fn expect_line(&mut self, what: &str, pick: impl Fn(&OutputLine) -> bool) -> OutputLine {
        let start = Instant::now();
        loop {
            if let Some(at) = self.lines.iter().position(&pick) {
                return self.lines.remove(at);
            }
            let left = WATCHDOG.saturating_sub(start.elapsed());
            assert!(left > Duration::ZERO, "{what} is not printed; got {:?}", self.lines);
            let lines = self.agent.next_output(left);
            self.lines.extend(lines.unwrap_or_else(|| panic!("ended before {what}; got {:?}", self.lines)));
        }
    }

    /// Ends the agent; all that was printed and not taken yet.
    pub fn stop(mut self) -> Vec<OutputLine> {
        self.agent.stop();
        while let Some(lines) = self.agent.next_output(Duration::ZERO) {
            self.lines.extend(lines);
        }
        self.lines
    }
}

/// Living processes whose command line contains `part`.
pub fn running(part: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        line.contains(part) && *pid != std::process::id() && !matches!(state, None | Some('Z' | 'X'))
    })
    .collect()
}

/// Waits until no process, or some, has `part` in its command line.
pub fn wait_running(part: &str, some: bool) {
    let start = Instant::now();
    while running(part).is_empty() == some {
        assert!(start.elapsed() < WATCHDOG, "processes with {part:?}: {:?}", running(part));
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A number of seconds to sleep that no other test uses: names the sleepers.
pub fn mark(number: u32) -> String {
    format!("{}{number}", 70_000_000 + std::process::id() % 1_000_000)
}
