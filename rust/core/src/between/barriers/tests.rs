use super::*;

const PROC: ProcId = ProcId::new(HostId(2), 1, 5);
const THIRD: HostId = HostId(3);
const FOURTH: HostId = HostId(4);

#[test]
fn a_word_waits_for_all_hosts_to_which_something_is_under_way() {
    let mut barriers: Barriers = Barriers::default();
    let asked = barriers.hold(vec![THIRD, FOURTH], Word::Heard(PROC));
    assert_eq!(asked.iter().map(|(host, _)| *host).collect::<Vec<_>>(), [THIRD, FOURTH]);
    assert_eq!(barriers.answered(THIRD, asked[0].1), []);
    assert_eq!(barriers.answered(THIRD, asked[0].1), [], "once more from the same");
    assert_eq!(barriers.answered(FOURTH, asked[1].1), [Word::Heard(PROC)]);
    assert_eq!(barriers.gone(FOURTH), []);
}

#[test]
fn an_earlier_answer_does_not_let_a_later_word_pass() {
    let mut barriers: Barriers = Barriers::default();
    let first = barriers.hold(vec![THIRD], Word::Heard(PROC));
    let word = Word::Of { from: PROC, bytes: Bytes::from_static(b"mourned") };
    let second = barriers.hold(vec![THIRD], word.clone());
    assert_eq!(barriers.answered(THIRD, first[0].1), [Word::Heard(PROC)]);
    assert_eq!(barriers.answered(THIRD, second[0].1), [word]);
}

#[test]
fn a_host_that_is_gone_holds_up_nothing() {
    let mut barriers: Barriers = Barriers::default();
    barriers.hold(vec![THIRD], Word::Heard(PROC));
    assert_eq!(barriers.gone(THIRD), [Word::Heard(PROC)]);
}
