use super::*;

fn sent(line: &mut Line<u32>) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    while let Some((number, word)) = line.next_word() {
        all.push((number, *word));
    }
    all
}

fn with(words: &[u32]) -> Line<u32> {
    let mut line = Line::default();
    for word in words {
        let number = line.push(*word);
        line.release(number);
    }
    line
}

#[test]
fn nothing_leaves_before_the_other_end_has_said_how_far_it_is() {
    let mut line = with(&[10, 11]);
    assert_eq!(sent(&mut line), []);
    line.open(0);
    assert_eq!(sent(&mut line), [(1, 10), (2, 11)]);
}

#[test]
fn nothing_leaves_before_it_is_released() {
    let mut line: Line<u32> = Line::default();
    line.open(0);
    let (first, second) = (line.push(10), line.push(11));
    assert_eq!(sent(&mut line), []);
    line.release(first);
    assert_eq!(sent(&mut line), [(1, 10)]);
    line.release(second);
    assert_eq!(sent(&mut line), [(2, 11)]);
}

#[test]
fn what_the_other_end_may_have_forgotten_is_sent_again_and_the_rest_is_not() {
    let mut line = with(&[10, 11, 12, 13]);
    line.open(0);
    sent(&mut line);
    line.heard(1);
    line.close();
    line.push(14);
    line.release(5);
    assert_eq!(sent(&mut line), []);
    line.open(2);
    assert_eq!(sent(&mut line), [(3, 12), (4, 13), (5, 14)]);
    line.heard(5);
    assert_eq!(line.kept(), 0);
}

#[test]
fn a_word_that_comes_twice_is_taken_in_once() {
    let mut line: Line<u32> = Line::default();
    assert!(line.accept(1));
    assert!(line.accept(2));
    assert!(!line.accept(1));
    assert!(!line.accept(2));
    assert!(line.accept(3));
    assert_eq!(line.arrived(), 3);
}

#[test]
fn only_what_is_settled_is_told() {
    let mut line: Line<u32> = Line::default();
    line.open(0);
    for number in 1..=TELL_EVERY {
        assert!(line.accept(number));
    }
    assert!(!line.owes_word());
    line.settle(TELL_EVERY - 1);
    assert!(!line.owes_word());
    line.settle(TELL_EVERY);
    assert!(line.owes_word());
    assert_eq!(line.tell(), TELL_EVERY);
    assert!(!line.owes_word());
}

#[test]
fn an_answer_that_is_ahead_of_what_has_left_does_no_harm() {
    let mut line = with(&[10, 11]);
    line.open(0);
    // It had them from an earlier head.
    line.heard(2);
    assert_eq!(sent(&mut line), []);
    let number = line.push(12);
    line.release(number);
    assert_eq!(sent(&mut line), [(3, 12)]);
}
