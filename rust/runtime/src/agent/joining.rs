//! How a host comes to its place in a cluster.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use raymesh_core::controller::Controller;
use raymesh_net::hello::Purpose;
use raymesh_net::hub::{ConnId, listen};
use raymesh_net::tls::Identity;
use raymesh_net::{Hub, HubConfig, Token};
use raymesh_wire::HostId;
use raymesh_wire::between::{Admission, Between, JoinAnswer, JoinRequest, Neighbour};
use serde::{Deserialize, Serialize};

use super::config::{Head, Role, Secret};
use super::error::Trouble;
use super::headship::{self, Headship, Resumed};
use super::journal;
use super::links::Links;
use super::run::Runner;
use super::{FIRST_HOST, StartError, seeking};

/// How long hosts that an earlier head knew have to come to a new one.
const GRACE: Duration = Duration::from_secs(10);

/// Where a host stands when it begins.
#[derive(Debug)]
pub struct Place {
    pub host: HostId,
    /// None: there are no others.
    pub links: Option<Links>,
    /// As an earlier head had left it, and the time there.
    pub controller: Controller,
    pub now: u64,
}

/// Takes up the role: who this host is, and its links, if there are others. `wake`: signalled when there is
/// something in the journal.
pub fn take_up(role: &Role, wake: &OwnedFd) -> Result<Place, StartError> {
    match role {
        Role::Alone => Ok(Place { host: FIRST_HOST, links: None, controller: Controller::new(), now: 0 }),
        Role::Head(head) => lead(head, wake),
        Role::Member(member) => seeking::join(member),
    }
}

/// What a head keeps of its cluster beside what happens in it.
#[derive(Serialize, Deserialize)]
struct About {
    token: [u8; Token::LEN],
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

fn lead(config: &Head, wake: &OwnedFd) -> Result<Place, StartError> {
    // Before anything is written: if the port is taken, that may be by the head whose journal it is.
    let listener = listen(config.listen)?;
    let port = listener.local_addr().map_err(StartError::system("an address"))?.port();
    let directory = config.journals.as_ref().map(|journals| journals.join(format!("head-{port}")));
    // On a port that was just free, whoever had it before is another cluster.
    let returns = directory.as_deref().filter(|_| config.listen.port() != 0);
    let saved = returns.map(journal::read).transpose()?.flatten();
    let fail = |error: postcard::Error| StartError::Journal {
        path: directory.clone().unwrap_or_default(),
        reason: format!("what is in it does not parse ({error})"),
        trouble: Trouble::Damaged,
    };
    let about = match &saved {
        Some(saved) => postcard::from_bytes(&saved.about).map_err(fail)?,
        None => About {
            token: *config.token.as_bytes(),
            identity: config.identity.as_ref().map(|identity| identity.to_der()),
        },
    };
    let last = saved.as_ref().map_or(0, journal::Saved::last);
    let resumed = saved.map(|saved| Headship::resume(&saved, config.patience)).transpose().map_err(fail)?;
    let (mut headship, controller, now, formers) = match resumed {
        Some(Resumed { headship, controller, now, formers }) => (headship, controller, now, formers),
        None => (Headship::new(FIRST_HOST, config.patience), Controller::new(), 0, Vec::new()),
    };
    let me = headship.books.me();
    let token = Token::from_bytes(about.token);
    let identity = about.identity.clone().map(|(certificate, key)| Identity::from_der(certificate, key));
    let identity = identity.map(Arc::new);
    let secret = Secret { token: token.clone(), identity: identity.clone() };
    let mut hub = Hub::new(HubConfig { me, token, identity, listener, timing: config.timing })?;
    hub.set_head(me, config.patience);
    for (host, address) in headship.books.addresses() {
        hub.know(host, address);
        hub.expect(host, GRACE);
    }
    if let Some(directory) = &directory {
        let about = postcard::to_allocvec(&about).map_err(fail)?;
        let wake = wake.try_clone().map_err(StartError::system("an eventfd"))?;
        headship.keep_journal(directory, &about, last, &controller, wake)?;
    }
    let mut links = Links::new(hub, me, Some(headship), secret);
    links.formers = formers;
    Ok(Place { host: me, links: Some(links), controller, now })
}

impl Runner {
    /// Somebody who knows the token wants something of this host.
    pub(super) fn asked(&mut self, conn: ConnId, remote: SocketAddr, purpose: Purpose) {
        let Some(links) = &mut self.links else { return };
        match (purpose, &mut links.headship) {
            (Purpose::Join { .. }, _) if self.stopping => {
                links.hub.refuse(conn, "the cluster is shutting down")
            }
            (Purpose::Join { about }, headship) => {
                match (postcard::from_bytes::<JoinRequest>(&about), headship) {
                    (Ok(request), Some(headship)) => headship.admit(conn, remote.ip(), request.port),
                    (Ok(request), None) => self.show_way(conn, &request),
                    (Err(_), _) => links.hub.refuse(conn, "the request does not parse"),
                }
                self.do_what_is_due();
            }
            _ => links.hub.refuse(conn, "this host cannot answer that"),
        }
    }

    /// Lets a host in, and tells the others.
    pub(super) fn let_in(
        &mut self,
        conn: ConnId,
        host: HostId,
        address: Option<SocketAddr>,
        others: Vec<Neighbour>,
    ) {
        let Some(links) = &mut self.links else { return };
        let Some(headship) = &links.headship else { return };
        links.hub.know(host, address);
        // It is heard of from now on, or it is dead.
        links.hub.want(host);
        let patience_ms = u64::try_from(headship.patience().as_millis()).unwrap_or(u64::MAX);
        let told = others.iter().map(|other| other.host).collect::<Vec<_>>();
        let admission = Admission { host, head: headship.books.me(), patience_ms, hosts: others };
        match postcard::to_allocvec(&JoinAnswer::In(admission)) {
            Ok(answer) => links.hub.answer(conn, &answer),
            Err(_) => links.hub.refuse(conn, "there is no answer"),
        }
        let joined = vec![headship::neighbour(host, address)];
        for other in told {
            self.tell_agent(other, Between::Hosts { joined: joined.clone(), gone: Vec::new() });
        }
    }
}
