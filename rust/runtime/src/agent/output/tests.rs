use std::time::Duration;

use raymesh_wire::{HostId, ProcId};

use super::{LastLines, Lines, OutputLine, OutputQueue};

fn named(name: &'static str) -> Lines {
    Lines::new(Box::new(|| name.to_owned()))
}

fn feed(lines: &mut Lines, pieces: &[&[u8]]) -> Vec<(String, String)> {
    let mut got = Vec::new();
    for piece in pieces {
        lines.feed(piece, &mut |name, text| got.push((name.to_owned(), text)));
    }
    lines.finish(&mut |name, text| got.push((name.to_owned(), text)));
    got
}

fn texts(pieces: &[&[u8]]) -> Vec<String> {
    feed(&mut named("w"), pieces).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_line_that_arrives_in_pieces_is_one_line() {
    assert_eq!(texts(&[b"on", b"e\ntw", b"o\n\nthree"]), ["one", "two", "", "three"]);
}

#[test]
fn bytes_that_are_no_utf8_do_not_lose_the_line() {
    assert_eq!(texts(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
}

#[test]
fn a_line_without_end_does_not_grow_for_ever() {
    let long = vec![b'x'; 200_000];
    let got = texts(&[&long]);
    assert!(got.len() > 1);
    assert_eq!(got.iter().map(String::len).sum::<usize>(), long.len());
}

#[test]
fn a_name_is_that_of_one_line_and_is_not_shown() {
    let got = feed(
        &mut named("worker"),
        &[b"a\n\x00\x1braymesh-", b"name:f\nb\nc\n", b"begun\x00\x1braymesh-name:g\nd"],
    );
    let want = [("worker", "a"), ("f", "b"), ("worker", "c"), ("worker", "begun"), ("g", "d")];
    assert_eq!(got, want.map(|(name, text)| (name.to_owned(), text.to_owned())));
}

fn line(text: &str) -> OutputLine {
    let proc = ProcId::new(HostId(0), 1, 2);
    OutputLine {
        proc,
        pid: 1,
        name: "f".to_owned(),
        is_stderr: false,
        ip: String::new(),
        text: text.to_owned(),
    }
}

#[test]
fn lines_left_at_the_end_are_still_handed_out() {
    let queue = OutputQueue::default();
    queue.push(line("last"));
    queue.close();
    assert_eq!(queue.take(Duration::MAX).0, Some(vec![line("last")]));
    assert_eq!(queue.take(Duration::MAX).0, None);
}

#[test]
fn a_flood_stops_the_reader_until_somebody_takes() {
    let queue = OutputQueue::default();
    let text = "x".repeat(60_000);
    while queue.push(line(&text)) {}
    assert!(!queue.has_room());
    let mut resumed = false;
    while !resumed {
        let (lines, resume) = queue.take(Duration::ZERO);
        assert!(lines.is_some_and(|lines| !lines.is_empty()));
        resumed = resume;
    }
    assert!(queue.has_room());
}

#[test]
fn last_lines_are_few_and_short_and_end_with_the_latest() {
    let mut last = LastLines::default();
    for n in 0..100 {
        last.push(&format!("line {n}"));
        last.push("");
    }
    assert_eq!(last.text(), "line 95\nline 96\nline 97\nline 98\nline 99");
    let mut last = LastLines::default();
    for _ in 0..5 {
        last.push(&"ü".repeat(10_000));
    }
    last.push("the latest");
    let text = last.text();
    assert!(text.len() <= 1 << 10, "{}", text.len());
    assert!(text.starts_with("ü") && text.ends_with("...\nthe latest"));
}
