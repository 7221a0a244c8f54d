use super::*;

const TO: ProcId = ProcId::new(HostId(2), 1, 5);
const OTHER: ProcId = ProcId::new(HostId(2), 1, 6);
const FAR: HostId = HostId(3);

fn word(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn a_death_waits_for_its_host_and_what_comes_after_it_waits_too() {
    let mut news: News = News::default();
    assert_eq!(news.pass(TO, word("before")), Some(word("before")));
    let first = news.hold(TO, FAR, word("death"));
    assert_eq!(news.pass(TO, word("after")), None);
    assert_eq!(news.pass(OTHER, word("other")), Some(word("other")), "others do not wait");
    let second = news.hold(TO, FAR, word("death 2"));
    assert_eq!(news.answered(HostId(4), first), [], "the answer of another host");
    assert_eq!(news.answered(FAR, first), [(TO, word("death")), (TO, word("after"))]);
    assert_eq!(news.pass(TO, word("last")), None);
    assert_eq!(news.answered(FAR, second), [(TO, word("death 2")), (TO, word("last"))]);
    assert_eq!(news.pass(TO, word("free")), Some(word("free")));
}

#[test]
fn answers_in_another_order_change_no_order() {
    let mut news: News = News::default();
    let first = news.hold(TO, FAR, word("a"));
    let second = news.hold(TO, HostId(4), word("b"));
    assert_eq!(news.answered(HostId(4), second), []);
    assert_eq!(news.answered(FAR, first), [(TO, word("a")), (TO, word("b"))]);
}

#[test]
fn a_host_that_is_gone_is_not_waited_for() {
    let mut news: News = News::default();
    news.hold(TO, FAR, word("a"));
    news.hold(OTHER, FAR, word("b"));
    assert_eq!(news.gone(FAR), [(TO, word("a")), (OTHER, word("b"))]);
}
