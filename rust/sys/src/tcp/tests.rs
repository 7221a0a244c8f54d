use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

#[test]
fn a_connection_on_one_machine_is_short_and_a_file_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dialer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut acceptor, _) = listener.accept().unwrap();
    dialer.write_all(b"x").unwrap();
    acceptor.read_exact(&mut [0]).unwrap();
    let took = round_trip(&dialer).unwrap();
    assert!(took > Duration::ZERO && took < Duration::from_secs(1), "{took:?}");
    assert_eq!(round_trip(std::fs::File::open("/dev/null").unwrap()), None);
}
