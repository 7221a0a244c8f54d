use proptest::prelude::*;

use super::*;

const NONCES: Nonces = Nonces { acceptor: [1; 32], dialer: [2; 32] };

fn token() -> Token {
    Token::from_bytes([5; 32])
}

#[test]
fn nothing_is_read_before_it_is_all_there() {
    let purpose = Purpose::Link { from: HostId(2), to: HostId(1), received: 9 };
    let hello = hello(&token(), &NONCES, b"", &purpose);
    for end in 0..hello.len() {
        assert_eq!(read_hello(&hello[..end]).unwrap(), None, "{end}");
    }
    let more = [hello.clone(), b"frames".to_vec()].concat();
    let (read, len) = read_hello(&more).unwrap().unwrap();
    assert_eq!(len, hello.len());
    assert!(token().check(Side::Dialer, &NONCES, b"", &read.proof));
    assert_eq!(decode_purpose(&read.purpose).unwrap(), purpose);
}

#[test]
fn a_greeting_of_another_version_names_both() {
    let mut greeting = greeting(&NONCES.acceptor);
    greeting[4] = 250;
    let error = read_greeting(&greeting).unwrap_err().to_string();
    assert!(
        error.contains("250") && error.contains(&VERSION.to_string()) && error.contains(RELEASE),
        "{error}"
    );
}

/// Where the layout stands in a greeting.
fn layout_of(greeting: &mut [u8]) -> &mut [u8] {
    let at = MAGIC.len() + 2 + 1 + RELEASE.len();
    &mut greeting[at..at + 8]
}

#[test]
fn a_build_of_another_layout_is_told_apart_from_both_ends() {
    let mut greeting = greeting(&NONCES.acceptor);
    assert_eq!(*layout_of(&mut greeting), LAYOUT.to_le_bytes());
    layout_of(&mut greeting).copy_from_slice(&0x1234_u64.to_le_bytes());
    let mut hello = hello(&token(), &NONCES, b"", &Purpose::Ask { question: Vec::new() });
    layout_of(&mut hello).copy_from_slice(&0x1234_u64.to_le_bytes());
    for error in [read_greeting(&greeting).unwrap_err(), read_hello(&hello).unwrap_err()] {
        let text = error.to_string();
        for word in ["0000000000001234", &format!("{LAYOUT:016x}"), RELEASE, "hint:"] {
            assert!(text.contains(word), "{text}");
        }
    }
}

#[test]
fn another_version_is_told_before_what_only_this_one_says() {
    // It may have nothing where the layout is here.
    let mut greeting = greeting(&NONCES.acceptor);
    greeting[4] = 250;
    let short = &greeting[..MAGIC.len() + 2 + 1 + RELEASE.len()];
    assert!(matches!(read_greeting(short), Err(LinkError::Version { theirs: 250, .. })));
}

#[test]
fn another_service_is_recognized_by_its_first_byte() {
    for words in ["HTTP/1.1 400 Bad Request\r\n", "SSH-2.0-OpenSSH_9.2", "R", "RM"] {
        let read = read_greeting(words.as_bytes());
        if MAGIC.starts_with(words.as_bytes()) {
            assert!(read.unwrap().is_none());
        } else {
            let error = read.unwrap_err().to_string();
            assert!(error.contains("does not speak raymesh") && error.contains(&words[..3]), "{error}");
        }
    }
}

#[test]
fn answers_come_back() {
    let welcome = welcome(&token(), &NONCES, b"e", b"says");
    let (answer, len) = read_answer(&welcome).unwrap().unwrap();
    assert_eq!(len, welcome.len());
    assert!(matches!(answer, Answer::Welcome { says, .. } if says == b"says"));
    let refusal = refusal(Code::Other, &"ü".repeat(9000));
    let (answer, _) = read_answer(&refusal).unwrap().unwrap();
    let Answer::Refusal { code, text } = answer else { panic!("{answer:?}") };
    assert!(matches!(refused(code, text), LinkError::Refused(text) if text.starts_with("üü")));
}

#[test]
fn an_impossible_length_is_refused_before_anything_is_stored() {
    let mut hello = hello(&token(), &NONCES, b"", &Purpose::Ask { question: Vec::new() });
    let at = hello.len() - read_hello(&hello).unwrap().unwrap().0.purpose.len() - 4;
    hello[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read_hello(&hello), Err(LinkError::Garbage(_))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_greeting(&bytes);
        let _ = read_answer(&bytes);
        let _ = decode_purpose(&bytes);
        let mut hello = greeting(&NONCES.dialer);
        hello.extend_from_slice(&bytes);
        let _ = read_hello(&hello);
    }
}
