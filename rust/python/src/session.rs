//! The runtime of this process: one at a time, as driver or as worker.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use raymesh_runtime::agent::{Agent, AgentConfig, OutputReader, Role};
use raymesh_runtime::process::Proc;
use raymesh_wire::{JobId, Quantity, ResourceSet};

use crate::errors::os_error;
use crate::hooks::hooks;

/// See the module.
pub(crate) struct Session {
    pub(crate) proc: Arc<Proc>,
    pub(crate) worker: bool,
    agent: Option<Agent>,
    /// Unique in the process: what belongs to another session must be made anew.
    pub(crate) generation: u64,
    pub(crate) name: String,
    pub(crate) namespace: RwLock<String>,
}

static SESSION: RwLock<Option<Arc<Session>>> = RwLock::new(None);
/// What workers print, of the latest session: its last lines are taken after its end.
static OUTPUT: RwLock<Option<(u64, OutputReader)>> = RwLock::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Sessions up to this generation belong to the process that this one was forked from.
static FOREIGN: AtomicU64 = AtomicU64::new(0);

/// Of processes that belong to no session: the job of a local cluster.
const LOCAL_JOB: JobId = JobId(1);

/// The job that this process works for.
pub(crate) fn job() -> JobId {
    current().map_or(LOCAL_JOB, |session| session.job())
}

impl Session {
    fn new(proc: Arc<Proc>, name: String, namespace: String, agent: Option<Agent>) -> Self {
        proc.with_core(|core, _, _| core.name_calls(crate::function::task_name));
        Self {
            worker: agent.is_none(),
            proc,
            name,
            namespace: RwLock::new(namespace),
            agent,
            generation: GENERATION.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

impl Session {
    pub(crate) fn job(&self) -> JobId {
        self.proc.job()
    }

    /// Whether this is a copy, by fork, of another process's session, whose threads are not here.
    fn is_foreign(&self) -> bool {
        self.generation <= FOREIGN.load(Ordering::Relaxed)
    }
}

/// To be called in the child of a fork.
#[pyfunction]
pub(crate) fn after_fork() {
    FOREIGN.store(GENERATION.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The session, if there is one.
pub(crate) fn current() -> Option<Arc<Session>> {
    SESSION.read().as_ref().filter(|session| !session.is_foreign()).cloned()
}

/// The session; starts one as `ray.init()` would if there is none.
pub(crate) fn ensure(py: Python<'_>) -> PyResult<Arc<Session>> {
    if let Some(session) = current() {
        return Ok(session);
    }
    hooks(py)?.auto_init.bind(py).call0()?;
    current().ok_or_else(|| PyRuntimeError::new_err("raymesh is not initialized: call raymesh.init() first"))
}

pub(crate) fn install_worker(proc: Arc<Proc>, namespace: String, name: String) {
    *SESSION.write() = Some(Arc::new(Session::new(proc, name, namespace, None)));
}

/// The namespace of the actor that this worker has become.
pub(crate) fn set_namespace(namespace: &str) {
    if let Some(session) = current() {
        namespace.clone_into(&mut session.namespace.write());
    }
}

/// The namespace of the job that this worker works for. An actor has its own.
pub(crate) fn set_job_namespace(namespace: &str) {
    if crate::context::actor().is_none() {
        set_namespace(namespace);
    }
}

/// Resources by name; amounts were checked by the caller.
pub(crate) fn resource_set(amounts: BTreeMap<String, f64>) -> ResourceSet {
    amounts.into_iter().map(|(name, amount)| (name, Quantity::from_f64(amount))).collect()
}

#[pyfunction]
#[pyo3(signature = (*, resources, object_store_memory, namespace, labels, host_name, preload, early, prestart, capture_output, join=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn start_driver(
    py: Python<'_>,
    resources: BTreeMap<String, f64>,
    object_store_memory: u64,
    namespace: String,
    labels: BTreeMap<String, String>,
    host_name: String,
    preload: Vec<String>,
    early: Vec<String>,
    prestart: usize,
    capture_output: bool,
    join: Option<&str>,
) -> PyResult<u64> {
    if current().is_some() {
        return Err(PyRuntimeError::new_err("raymesh is running already: call raymesh.shutdown() first"));
    }
    let sys = py.import("sys")?;
    let executable: String = sys.getattr("executable")?.extract()?;
    let name = session_name(join.is_some());
    let env = worker_environment(py, &namespace, &name)?;
    let config = AgentConfig {
        labels: labels.into_iter().collect(),
        host_name,
        session_name: name.clone(),
        sys_path: sys.getattr("path")?.extract()?,
        env: Some(env),
        preload,
        early,
        prestart,
        capture_output,
        role: join
            .map(|join| crate::host::member(join, None, 0))
            .transpose()?
            .map_or(Role::Alone, Role::Member),
        ..AgentConfig::new(vec![executable.into()], resource_set(resources), object_store_memory)
    };
    let session = py.detach(|| -> PyResult<Session> {
        let agent = Agent::start(config).map_err(crate::host::not_started)?;
        let eventfd = agent.agent_eventfd().try_clone_to_owned();
        let proc = eventfd
            .and_then(|eventfd| Proc::start(agent.segment(), agent.driver(), agent.controller(), eventfd))
            .map_err(|error| os_error("raymesh cannot start its helper thread", &error))?;
        proc.on_notice(agent.notifier());
        let loser = Arc::downgrade(&proc);
        agent.on_lost(Box::new(move |reason| {
            if let Some(proc) = loser.upgrade() {
                proc.lose(reason);
            }
        }));
        let output = agent.output();
        let session = Session::new(proc, name, namespace, Some(agent));
        *OUTPUT.write() = Some((session.generation, output));
        Ok(session)
    })?;
    let generation = session.generation;
    *SESSION.write() = Some(Arc::new(session));
    Ok(generation)
}

/// As Ray's: shows when and by whom it was made.
/// In the names of sessions that are part of a cluster.
pub(crate) const OF_CLUSTER: &str = "_of_cluster_";

pub(crate) fn session_name(of_cluster: bool) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let kind = if of_cluster { OF_CLUSTER } else { "_" };
    format!("session{kind}{}_{}", since.as_micros(), std::process::id())
}

/// What `os.environ` holds now, and what workers are to know of the session.
pub(crate) fn worker_environment(
    py: Python<'_>,
    namespace: &str,
    name: &str,
) -> PyResult<Vec<(OsString, OsString)>> {
    let environ = py.import("os")?.getattr("environ")?;
    let mut env: BTreeMap<OsString, OsString> = environ
        .call_method0("copy")?
        .extract::<BTreeMap<String, String>>()?
        .into_iter()
        .map(|(k, v)| (k.into(), v.into()))
        .collect();
    env.insert("RAYMESH_NAMESPACE".into(), namespace.into());
    env.insert("RAYMESH_SESSION".into(), name.into());
    Ok(env.into_iter().collect())
}

#[pyfunction]
pub(crate) fn stop(py: Python<'_>) {
    let Some(session) = SESSION.write().take() else { return };
    if session.is_foreign() {
        std::mem::forget(session);
        return;
    }
    py.detach(|| {
        session.proc.stop();
        if let Some(agent) = &session.agent {
            agent.stop();
        }
    });
}

#[pyfunction]
pub(crate) fn is_running() -> bool {
    current().is_some()
}

#[pyfunction]
pub(crate) fn is_worker() -> bool {
    current().is_some_and(|session| session.worker)
}

#[pyfunction]
pub(crate) fn preload(modules: Vec<String>, early: Vec<String>) {
    if let Some(agent) = current().as_ref().and_then(|session| session.agent.as_ref()) {
        agent.preload(modules);
        agent.import_early(early);
    }
}

/// Name, pid, whether it was for standard error, text, IP address of another host.
pub(crate) type OutputLine = (String, u32, bool, String, String);

pub(crate) fn output_line(line: raymesh_runtime::OutputLine) -> OutputLine {
    (line.name, line.pid, line.is_stderr, line.text, line.ip)
}

#[pyfunction]
pub(crate) fn next_output(py: Python<'_>, session: u64, timeout: f64) -> Option<Vec<OutputLine>> {
    let of_session = |output: &&(u64, OutputReader)| output.0 == session;
    let (_, reader) = OUTPUT.read().as_ref().filter(of_session).cloned()?;
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
    let Some(lines) = py.detach(|| reader.next(timeout)) else {
        let mut output = OUTPUT.write();
        if output.as_ref().is_some_and(|(of, _)| *of == session) {
            *output = None;
        }
        return None;
    };
    Some(lines.into_iter().map(output_line).collect())
}
