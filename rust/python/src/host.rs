//! `Host`: a host of a cluster without a driver, as `raymesh start` runs it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use raymesh_net::ask::resolve;
use raymesh_net::tls::Identity;
use raymesh_net::{JoinString, Target, Timing, Token};
use raymesh_runtime::StartError;
use raymesh_runtime::agent::{Agent, AgentConfig, Head, Member, OutputReader, Role, Secret};

use crate::session::{self, resource_set};

/// One host of a cluster: its head, or one that joins.
#[pyclass(frozen, module = "raymesh._native")]
#[derive(Debug)]
pub(crate) struct Host {
    agent: Agent,
    output: OutputReader,
    join: JoinString,
    is_head: bool,
}

#[pymethods]
impl Host {
    /// Starts a head that listens, or joins the one that `join` names.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python class")]
    #[pyo3(signature = (
        *, resources, object_store_memory, labels, host_name, listen, port, join, journals, patience, tls
    ))]
    fn new(
        py: Python<'_>,
        resources: BTreeMap<String, f64>,
        object_store_memory: u64,
        labels: BTreeMap<String, String>,
        host_name: String,
        listen: Option<&str>,
        port: u16,
        join: Option<&str>,
        journals: Option<PathBuf>,
        patience: f64,
        tls: bool,
    ) -> PyResult<Self> {
        let listen = listen.map(str::parse::<IpAddr>).transpose().map_err(|_| {
            PyValueError::new_err(
                "what --listen names is no address to listen on: give an IP of this machine",
            )
        })?;
        let role = match join {
            Some(join) => Role::Member(member(join, listen, port)?),
            None => {
                let listen = SocketAddr::new(listen.unwrap_or(Ipv4Addr::LOCALHOST.into()), port);
                let patience = Duration::try_from_secs_f64(patience).map_err(|_| {
                    PyValueError::new_err(
                        "how long a lost head is waited for is a number of seconds, 0 or more",
                    )
                })?;
                Role::Head(Head { journals, patience, ..head(listen, tls)? })
            }
        };
        let sys = py.import("sys")?;
        let executable: String = sys.getattr("executable")?.extract()?;
        let name = session::session_name(true);
        let config = AgentConfig {
            labels: labels.into_iter().collect(),
            host_name,
            env: Some(session::worker_environment(py, "", &name)?),
            session_name: name,
            sys_path: sys.getattr("path")?.extract()?,
            role,
            driver: false,
            ..AgentConfig::new(vec![executable.into()], resource_set(resources), object_store_memory)
        };
        let agent = py.detach(|| Agent::start(config)).map_err(not_started)?;
        let output = agent.output();
        let (Some(Secret { token, identity }), Some(address)) = (agent.secret().cloned(), agent.address())
        else {
            return Err(PyRuntimeError::new_err("the host has no links"));
        };
        let fingerprint = identity.map(|identity| identity.fingerprint());
        let join = JoinString { host: address.ip().to_string(), port: address.port(), token, fingerprint };
        let is_head = agent.head().is_none();
        Ok(Self { agent, output, join, is_head })
    }

    /// What other hosts and drivers join the cluster by, through this host.
    fn join_string(&self) -> String {
        self.join.to_string()
    }

    /// `IP:PORT` of the head that this host has joined; None if it is the head.
    fn head(&self) -> Option<String> {
        self.agent.head().map(|address| address.to_string())
    }

    /// Of a head: its certificate and the key to it (DER), for what else it serves. A secret.
    fn identity<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (certificate, key) = self.agent.secret().filter(|_| self.is_head)?.identity.as_ref()?.to_der();
        Some((PyBytes::new(py, &certificate), PyBytes::new(py, &key)))
    }

    /// `IP:PORT` where other hosts reach this one.
    fn address(&self) -> String {
        self.agent.address().map_or_else(String::new, |address| address.to_string())
    }

    /// Lines that processes of this host have printed and that no driver takes; None once it has ended.
    fn next_output(&self, py: Python<'_>, timeout: f64) -> Option<Vec<session::OutputLine>> {
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
        let lines = py.detach(|| self.output.next(timeout))?;
        Some(lines.into_iter().map(session::output_line).collect())
    }

    /// Ends the host and all its processes.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.agent.stop());
    }
}

/// The head of a new cluster.
fn head(listen: SocketAddr, tls: bool) -> PyResult<Head> {
    if !tls && !listen.ip().is_loopback() {
        return Err(not_started(StartError::Unprotected { ip: listen.ip() }));
    }
    let failed = |error: raymesh_net::JoinError| PyRuntimeError::new_err(error.to_string());
    let token = Token::generate().map_err(failed)?;
    let identity = if tls { Some(Arc::new(Identity::generate().map_err(failed)?)) } else { None };
    let (timing, journals, patience) = (Timing::default(), None, Duration::ZERO);
    Ok(Head { listen, token, identity, timing, journals, patience })
}

/// From a join string, of the head or another host. `listen`: None: where the head can reach it.
pub(crate) fn member(join: &str, listen: Option<IpAddr>, port: u16) -> PyResult<Member> {
    let join: JoinString =
        join.parse().map_err(|error: raymesh_net::JoinError| PyValueError::new_err(error.to_string()))?;
    let unknown = |error| {
        PyConnectionError::new_err(format!(
            "{} is no host that can be found: {error}\nhint: check the name in the join string",
            join.host
        ))
    };
    let address = resolve(&join.host, join.port).map_err(unknown)?[0];
    let encrypted = join.fingerprint.is_some();
    let target = Target { address, token: join.token, fingerprint: join.fingerprint, encrypted };
    Ok(Member { target, listen, port, timing: Timing::default(), waits_on: nobody_interrupts })
}

/// Ctrl-C ends the wait: what a signal handler has raised stays raised, for [`not_started`].
fn nobody_interrupts() -> bool {
    Python::attach(|py| py.check_signals().map_err(|error| error.restore(py)).is_ok())
}

/// What is wrong with the other end is a `ConnectionError`.
pub(crate) fn not_started(error: StartError) -> PyErr {
    match error {
        StartError::Link(error) => PyConnectionError::new_err(error.to_string()),
        StartError::Interrupted => Python::attach(PyErr::fetch),
        StartError::Lost { .. } | StartError::HeadUnreachable { .. } | StartError::NoWay { .. } => {
            PyConnectionError::new_err(error.to_string())
        }
        StartError::Hidden { .. } | StartError::Unprotected { .. } => {
            PyValueError::new_err(error.to_string())
        }
        error => PyRuntimeError::new_err(format!("raymesh cannot start: {error}")),
    }
}
