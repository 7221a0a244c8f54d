use std::net::SocketAddr;

use super::as_seen_from_here;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn a_head_beside_who_names_it_is_not_looked_for_on_this_machine() {
    let named_by = at("10.0.0.7:4000");
    assert_eq!(as_seen_from_here(at("127.0.0.1:6380"), named_by), at("10.0.0.7:6380"));
    assert_eq!(as_seen_from_here(at("0.0.0.0:6380"), named_by), at("10.0.0.7:6380"));
    assert_eq!(as_seen_from_here(at("10.0.0.1:6380"), named_by), at("10.0.0.1:6380"));
}
