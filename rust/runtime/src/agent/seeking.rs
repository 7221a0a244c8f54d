//! How a host finds the head of the cluster that it joins.
//!
//! It asks whom it was told of. If that is not the head, it says where the head is and what its certificate hashes to:
//! it has proved that it knows the token, so it is believed. A head that is gone for a while is waited for as the
//! others wait: whom it has asked knows whether they do, and answers after half a second or when the head is back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use raymesh_core::controller::Controller;
use raymesh_net::hello::Purpose;
use raymesh_net::hub::listen;
use raymesh_net::tls::{Fingerprint, Identity};
use raymesh_net::{Hub, HubConfig, LinkError, Target, ask};
use raymesh_wire::between::{Admission, HeadAt, JoinAnswer, JoinRequest};

use super::StartError;
use super::config::{Member, Secret};
use super::guide::Guide;
use super::joining::Place;
use super::links::Links;

/// How long somebody may take to answer; and how long a head may be out of reach that others reach.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn join(member: &Member) -> Result<Place, StartError> {
    let Found { head, listener, admission } = seek(member)?;
    let identity = if head.encrypted { Some(new_identity()?) } else { None };
    let (token, timing) = (head.token.clone(), member.timing);
    let secret = Secret { token: token.clone(), identity: identity.clone() };
    let mut hub = Hub::new(HubConfig { me: admission.host, token, identity, listener, timing })?;
    hub.set_head(admission.head, Duration::from_millis(admission.patience_ms));
    hub.know(admission.head, Some(head.address));
    for neighbour in &admission.hosts {
        hub.know(neighbour.host, neighbour.address.parse().ok());
    }
    // The head hears of this host from now on, or it is dead.
    hub.want(admission.head);
    let mut links = Links::new(hub, admission.head, None, secret);
    links.guide = Some(Guide::new(head.address, head.fingerprint, timing));
    Ok(Place { host: admission.host, links: Some(links), controller: Controller::new(), now: 0 })
}

fn new_identity() -> Result<Arc<Identity>, StartError> {
    let made = Identity::generate();
    made.map(Arc::new).map_err(|error| StartError::Link(LinkError::Tls(error.to_string())))
}

/// The head has let this host in.
struct Found {
    head: Target,
    listener: TcpListener,
    admission: Admission,
}

// The thread that starts a host waits here for real time: nothing of the host is there yet.
#[allow(clippy::disallowed_methods)]
fn seek(member: &Member) -> Result<Found, StartError> {
    let named = &member.target;
    let mut unreached: Option<(Instant, LinkError)> = None;
    loop {
        let missed = unreached.is_some();
        let head = match knock(named, member, missed)? {
            Heard::In(found) => return Ok(found),
            Heard::Elsewhere { away: true, .. } => {
                // Whoever cannot be reached because of that may be reached later.
                unreached = None;
                if !(member.waits_on)() {
                    return Err(StartError::Interrupted);
                }
                continue;
            }
            Heard::Elsewhere { head, .. } => head,
        };
        match knock(&head, member, false) {
            Ok(Heard::In(found)) => return Ok(found),
            // A head is never at another place than where it is.
            Ok(Heard::Elsewhere { .. }) => return Err(StartError::Answer),
            Err(StartError::Link(
                why @ (LinkError::Unreachable { .. } | LinkError::Io(_) | LinkError::TooSlow),
            )) => {
                let since = unreached.map_or_else(Instant::now, |(since, _)| since);
                if since.elapsed() >= PATIENCE {
                    return Err(StartError::HeadUnreachable {
                        through: named.address,
                        head: head.address,
                        source: Box::new(why),
                    });
                }
                unreached = Some((since, why));
            }
            Err(error) => return Err(error),
        }
        if !(member.waits_on)() {
            return Err(StartError::Interrupted);
        }
    }
}

enum Heard {
    In(Found),
    Elsewhere { head: Target, away: bool },
}

/// Asks one host to be let in.
fn knock(target: &Target, member: &Member, unreached: bool) -> Result<Heard, StartError> {
    let listener = listen(place_to_listen(member, target)?)?;
    let port = listener.local_addr().map_err(StartError::system("an address"))?.port();
    let request = postcard::to_allocvec(&JoinRequest { port, unreached }).map_err(|_| StartError::Answer)?;
    let answer = ask(target, Purpose::Join { about: request }, PATIENCE)?;
    match postcard::from_bytes(&answer).map_err(|_| StartError::Answer)? {
        JoinAnswer::In(admission) => Ok(Heard::In(Found { head: target.clone(), listener, admission })),
        JoinAnswer::Ask(HeadAt { address, fingerprint, away }) => {
            let address = address.parse().map_err(|_| StartError::Answer)?;
            let head = Target {
                address: as_seen_from_here(address, target.address),
                token: target.token.clone(),
                fingerprint: fingerprint.map(Fingerprint),
                encrypted: target.encrypted,
            };
            // Without one, whoever knows the token would do.
            if head.encrypted && head.fingerprint.is_none() {
                return Err(StartError::Answer);
            }
            Ok(Heard::Elsewhere { head, away })
        }
    }
}

/// A head on the machine of who names it may be named by an address that means another machine elsewhere.
fn as_seen_from_here(mut head: SocketAddr, named_by: SocketAddr) -> SocketAddr {
    if head.ip().is_loopback() || head.ip().is_unspecified() {
        head.set_ip(named_by.ip());
    }
    head
}

fn place_to_listen(member: &Member, target: &Target) -> Result<SocketAddr, StartError> {
    let address = target.address;
    let ip = member.listen.map_or_else(|| facing(address), Ok)?;
    if ip.is_loopback() && !address.ip().is_loopback() {
        return Err(StartError::Hidden { ip, head: address });
    }
    let exposed = [address.ip(), ip].into_iter().find(|ip| !ip.is_loopback());
    match exposed {
        Some(ip) if !target.encrypted => Err(StartError::Unprotected { ip }),
        _ => Ok(SocketAddr::new(ip, member.port)),
    }
}

/// The address of this machine as the other one sees it. Sends nothing.
fn facing(address: SocketAddr) -> Result<IpAddr, StartError> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    found.map(|found| found.ip()).map_err(|source| StartError::NoWay { address, source })
}

#[cfg(test)]
mod tests;
