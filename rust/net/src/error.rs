//! What goes wrong between hosts, in words that say what to do.

use std::io;
use std::net::SocketAddr;

use raymesh_wire::HostId;

/// A host cannot join, or a join string is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    #[error(
        "{text:?} is no address of a cluster: {why}\nhint: copy the whole string that `raymesh start` \
         has printed there, HOST:PORT/TOKEN.FINGERPRINT"
    )]
    Malformed { text: String, why: &'static str },
    #[error("the system has no random numbers to give")]
    NoRandomness,
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
}

/// Why a connection was refused or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    #[error("cannot listen on {address}: {source}{}", listen_hint(source))]
    Listen { address: SocketAddr, source: io::Error },
    #[error(
        "{address} answers nothing: {source}\nhint: does the host run that the string was printed for, and does a firewall let its port \
         through?"
    )]
    Unreachable { address: SocketAddr, source: io::Error },
    #[error("the connection has ended: {0}")]
    Io(#[from] io::Error),
    #[error(
        "the other end does not speak raymesh{}\nhint: the address must be that of a host of raymesh, not of a \
         Ray cluster or another service", seen(.found)
    )]
    NotRaymesh { found: Vec<u8> },
    #[error(
        "the head there does not encrypt its links, and the join string is of one that does\nhint: copy the whole \
         string that this head has printed"
    )]
    NotEncrypted,
    #[error(
        "{address} is there, but does not answer as a raymesh head would: {why}\nhint: the address must be that of a \
         head, with the string that it has printed: one that ends in .plain is for a head with --no-tls only. A head \
         that is stopped or very busy answers nothing, too"
    )]
    Mute { address: SocketAddr, why: Box<LinkError> },
    #[error(
        "the other end speaks version {theirs} of the protocol (raymesh {their_release}), this one {ours} \
         (raymesh {our_release})\nhint: install the same raymesh on all hosts of a cluster"
    )]
    Version { ours: u16, our_release: String, theirs: u16, their_release: String },
    #[error(
        "the other end is another build of raymesh ({their_release}, messages {theirs:016x}) than this one ({our_release}, \
         messages {ours:016x}), and would not understand it\nhint: install the same wheel, or build the same source, on \
         all hosts of a cluster, and start those again that ran before"
    )]
    Build { ours: u64, our_release: String, theirs: u64, their_release: String },
    #[error(
        "the certificate of the other end is not the one in the join string (expected {expected}, got {found})\
         \nhint: a string is for the host that has printed it. Was that host started anew? Then copy the string that \
         it has printed now. If not, somebody stands between you and it"
    )]
    Fingerprint { expected: String, found: String },
    #[error("TLS: {0}")]
    Tls(String),
    #[error(
        "the token is not this cluster's\nhint: copy the string that `raymesh start` on a host of this \
         cluster has printed"
    )]
    BadToken,
    #[error("refused: {0}")]
    Refused(String),
    #[error("the other end sends what is no frame: {0}")]
    Garbage(&'static str),
    #[error("no end of the handshake within its time")]
    TooSlow,
    #[error("the other end is of an earlier life of that host")]
    Stale,
    #[error("the head was started again, as host {}", .to.0)]
    Moved { to: HostId },
    #[error("messages are missing that were acknowledged to nobody: they cannot be sent again")]
    Gap,
}

fn listen_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "\nhint: another program has this port; choose another one with --port",
        io::ErrorKind::AddrNotAvailable => "\nhint: no network device of this host has that address",
        io::ErrorKind::PermissionDenied => "\nhint: ports below 1024 are for root",
        _ => "",
    }
}

fn seen(found: &[u8]) -> String {
    let shown: String = found.iter().take(24).flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
    if shown.is_empty() { String::new() } else { format!(" (it said \"{shown}\")") }
}
