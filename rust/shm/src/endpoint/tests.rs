use super::*;
use crate::layout::Shape;
use raymesh_wire::HostId;

const HOST: HostId = HostId(0);

fn pair() -> (Endpoint, Endpoint) {
    let segment = Segment::create(Shape { host: HOST, slots: 16, arena: 1 << 20 }).unwrap();
    let (a, b) = (ProcId::new(HOST, 0, 0), ProcId::new(HOST, 1, 5));
    segment.open_mailbox(a).unwrap();
    segment.open_mailbox(b).unwrap();
    (Endpoint::new(Arc::clone(&segment), a), Endpoint::new(segment, b))
}

fn drain(endpoint: &Endpoint) -> Vec<(ProcId, Bytes)> {
    let mut mail = Vec::new();
    endpoint.try_drain(&mut |from, message| mail.push((from, message))).unwrap();
    mail
}

#[test]
fn mail_arrives_in_order() {
    let (a, b) = pair();
    for n in 0..100u32 {
        assert!(a.send(b.me(), &n.to_le_bytes()));
    }
    let mail = drain(&b);
    assert_eq!(mail.len(), 100);
    assert!(mail.iter().zip(0u32..).all(|((from, got), n)| *from == a.me() && **got == n.to_le_bytes()));
    assert!(!b.has_mail());
}
