//! How a host comes to its place in a cluster.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use raymesh_net::hello::Purpose;
use raymesh_net::hub::{ConnId, listen};
use raymesh_net::{Hub, HubConfig, ask};
use raymesh_wire::HostId;
use raymesh_wire::between::{Between, JoinAnswer, JoinRequest, Neighbour};

use super::config::{Head, Member, Role};
use super::links::Links;
use super::run::Runner;
use super::{FIRST_HOST, StartError};

/// How long a head may take to let a host in.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes up the role: who this host is, and its links, if there are others.
pub fn take_up(role: &Role) -> Result<(HostId, Option<Links>), StartError> {
    match role {
        Role::Alone => Ok((FIRST_HOST, None)),
        Role::Head(head) => {
            let hub = Hub::new(hub_config(FIRST_HOST, head)?)?;
            Ok((FIRST_HOST, Some(Links::new(hub, FIRST_HOST, FIRST_HOST)?)))
        }
        Role::Member(member) => join(member),
    }
}

fn hub_config(me: HostId, head: &Head) -> Result<HubConfig, StartError> {
    Ok(HubConfig {
        me,
        token: head.token.clone(),
        identity: head.identity.clone(),
        listener: listen(head.listen)?,
        timing: head.timing,
    })
}

fn join(member: &Member) -> Result<(HostId, Option<Links>), StartError> {
    let listener = listen(member.listen)?;
    let port = listener.local_addr().map_err(StartError::system("an address"))?.port();
    let request = postcard::to_allocvec(&JoinRequest { port }).map_err(|_| StartError::Answer)?;
    let target = &member.target;
    let answer = ask(target, Purpose::Join { about: request }, PATIENCE)?;
    let answer: JoinAnswer = postcard::from_bytes(&answer).map_err(|_| StartError::Answer)?;
    let identity = if target.encrypted { Some(new_identity()?) } else { None };
    let config =
        HubConfig { me: answer.host, token: target.token.clone(), identity, listener, timing: member.timing };
    let mut hub = Hub::new(config)?;
    hub.know(answer.head, Some(target.address));
    for neighbour in &answer.hosts {
        hub.know(neighbour.host, neighbour.address.parse().ok());
    }
    // The head hears of this host from now on, or it is dead.
    hub.want(answer.head);
    Ok((answer.host, Some(Links::new(hub, answer.host, answer.head)?)))
}

fn new_identity() -> Result<std::sync::Arc<raymesh_net::tls::Identity>, StartError> {
    let made = raymesh_net::tls::Identity::generate();
    made.map(std::sync::Arc::new)
        .map_err(|error| StartError::Link(raymesh_net::LinkError::Tls(error.to_string())))
}

/// The head's list of the hosts of the cluster.
#[derive(Debug)]
pub struct Directory {
    hosts: BTreeMap<HostId, Option<SocketAddr>>,
    next: u32,
}

impl Directory {
    pub fn new(head: HostId) -> Self {
        Self { hosts: BTreeMap::new(), next: head.0 + 1 }
    }

    fn add(&mut self, remote: IpAddr, port: u16) -> (HostId, Option<SocketAddr>) {
        let host = HostId(self.next);
        self.next += 1;
        let address = (port != 0).then(|| SocketAddr::new(remote, port));
        self.hosts.insert(host, address);
        (host, address)
    }

    /// Whether it was there.
    pub fn remove(&mut self, host: HostId) -> bool {
        self.hosts.remove(&host).is_some()
    }

    pub fn hosts(&self) -> Vec<HostId> {
        self.hosts.keys().copied().collect()
    }

    fn neighbours(&self) -> Vec<Neighbour> {
        self.hosts.iter().map(|(host, address)| neighbour(*host, *address)).collect()
    }
}

fn neighbour(host: HostId, address: Option<SocketAddr>) -> Neighbour {
    Neighbour { host, address: address.map_or_else(String::new, |address| address.to_string()) }
}

impl Runner {
    /// Somebody who knows the token wants something of this host.
    pub(super) fn asked(&mut self, conn: ConnId, remote: SocketAddr, purpose: Purpose) {
        let Some(links) = &mut self.links else { return };
        match (purpose, &mut links.directory) {
            (Purpose::Join { .. }, _) if self.stopping => {
                links.hub.refuse(conn, "the cluster is shutting down")
            }
            (Purpose::Join { about }, Some(directory)) => {
                let Ok(request) = postcard::from_bytes::<JoinRequest>(&about) else {
                    return links.hub.refuse(conn, "the request does not parse");
                };
                let hosts = directory.neighbours();
                let (host, address) = directory.add(remote.ip(), request.port);
                links.hub.know(host, address);
                // It is heard of from now on, or it is dead.
                links.hub.want(host);
                let answer = JoinAnswer { host, head: links.head(), hosts: hosts.clone() };
                match postcard::to_allocvec(&answer) {
                    Ok(answer) => links.hub.answer(conn, &answer),
                    Err(_) => links.hub.refuse(conn, "there is no answer"),
                }
                let joined = vec![neighbour(host, address)];
                for other in hosts {
                    let news = Between::Hosts { joined: joined.clone(), gone: Vec::new() };
                    self.tell_agent(other.host, news);
                }
            }
            (Purpose::Join { .. }, None) => {
                links.hub.refuse(conn, "this host is not the head: join the head")
            }
            _ => links.hub.refuse(conn, "this host cannot answer that"),
        }
    }
}
