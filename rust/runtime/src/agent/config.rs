//! What an agent is told when it starts.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use raymesh_net::tls::Identity;
use raymesh_net::{Target, Timing, Token};
use raymesh_wire::ResourceSet;

/// What a host is to the others.
#[derive(Clone, Debug)]
pub enum Role {
    /// There are no others.
    Alone,
    /// It hosts the controller; others join it.
    Head(Head),
    /// It joins a cluster.
    Member(Member),
}

#[derive(Clone, Debug)]
pub struct Head {
    /// Port 0: any that is free; see [`super::Agent::address`].
    pub listen: SocketAddr,
    pub token: Token,
    /// None: links are not encrypted.
    pub identity: Option<Arc<Identity>>,
    pub timing: Timing,
    /// Where a head keeps its journal, in a directory named after the port. If the port is given and an earlier
    /// head has left one there, this head goes on where that one was, with its token and identity. None:
    /// the end of this head is the end of the cluster.
    pub journals: Option<PathBuf>,
    /// How long the others wait for a head that is gone.
    pub patience: Duration,
}

/// What lets others join through a host, beside its address.
#[derive(Clone, Debug)]
pub struct Secret {
    pub token: Token,
    /// None: links are not encrypted.
    pub identity: Option<Arc<Identity>>,
}

#[derive(Clone, Debug)]
pub struct Member {
    /// The head, or another host of the cluster, which knows where the head is.
    pub target: Target,
    /// Where hosts that join later can dial it. None: where the head sees it. Port 0: any that is free.
    pub listen: Option<IpAddr>,
    pub port: u16,
    pub timing: Timing,
    /// Whether to wait on for a head that the others wait for, too. Asked twice a second.
    pub waits_on: fn() -> bool,
}

/// See the fields. Everything that the user's program could change later (environment, `sys.path`) is
/// taken down here, so that the agent's thread reads nothing of the program's state.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// All that the host has: `CPU`, `GPU`, `memory`, custom ones.
    pub resources: ResourceSet,
    pub labels: Vec<(String, String)>,
    /// The host's name, for people.
    pub host_name: String,
    /// Shows in the process list.
    pub session_name: String,
    /// Size of the object arena in bytes.
    pub store_bytes: u64,
    /// The interpreter, by an absolute path, and its flags.
    pub python: Vec<OsString>,
    /// `sys.path` of the zygote and the workers. Empty: what the interpreter makes of it.
    pub sys_path: Vec<String>,
    /// Environment of the zygote and the workers. None: this process's.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// Modules for the zygote to import ahead; see also [`super::Agent::preload`].
    pub preload: Vec<String>,
    /// Modules that every zygote may import; see also [`super::Agent::import_early`].
    pub early: Vec<String>,
    /// Workers that have run nothing yet, to keep ready from the start.
    pub prestart: usize,
    /// Whether anybody takes [`super::Agent::next_output`]. If not, output of workers is dropped.
    pub capture_output: bool,
    pub role: Role,
    /// Whether this process is a driver, too.
    pub driver: bool,
}

impl AgentConfig {
    /// An agent for a host with `resources` whose workers run `python`.
    #[must_use]
    pub fn new(python: Vec<OsString>, resources: ResourceSet, store_bytes: u64) -> Self {
        Self {
            resources,
            labels: Vec::new(),
            host_name: "localhost".to_owned(),
            session_name: String::new(),
            store_bytes,
            python,
            sys_path: Vec::new(),
            env: None,
            preload: Vec::new(),
            early: Vec::new(),
            prestart: 0,
            capture_output: true,
            role: Role::Alone,
            driver: true,
        }
    }

    /// Whether the switch for importing ahead is on: `RAYMESH_PRELOAD=0` in the environment turns it off.
    pub(super) fn wants_preload(&self) -> bool {
        let name = "RAYMESH_PRELOAD";
        let value = match &self.env {
            Some(env) => env.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()),
            None => std::env::var_os(name),
        };
        value.is_none_or(|value| value != "0")
    }
}
