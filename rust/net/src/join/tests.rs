use super::*;

fn sample(host: &str) -> JoinString {
    JoinString {
        host: host.to_owned(),
        port: 6380,
        token: Token::from_bytes([0xfb; 32]),
        fingerprint: Some(Fingerprint([7; 32])),
    }
}

#[test]
fn what_is_printed_is_what_is_read() {
    for host in ["10.0.0.1", "head.example", "fe80::1"] {
        let text = sample(host).to_string();
        assert_eq!(text.parse::<JoinString>().unwrap(), sample(host), "{text}");
        assert!(
            text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['&', '#', '?', '"', '$']),
            "{text}"
        );
    }
}

#[test]
fn a_cluster_without_encryption_says_so() {
    let plain = JoinString { fingerprint: None, ..sample("127.0.0.1") };
    assert!(plain.to_string().ends_with(".plain"));
    assert_eq!(plain.to_string().parse::<JoinString>().unwrap(), plain);
}

#[test]
fn each_way_to_miscopy_it_is_told() {
    let good = sample("h").to_string();
    for (text, word) in [
        ("h:6380", "no token"),
        ("h/abc.def", "no port"),
        (":6380/a.b", "no host"),
        ("h:0/a.b", "port"),
        ("h:70000/a.b", "port"),
        ("h:6380/abc", "no fingerprint"),
        ("h:6380/abc.def", "token is cut off"),
        (&good[..good.len() - 1], "fingerprint is cut off"),
        (&format!("{good}x"), "fingerprint is cut off"),
    ] {
        let error = text.parse::<JoinString>().unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
        assert!(error.contains("hint:"), "{error}");
    }
}

#[test]
fn an_error_does_not_repeat_the_secret() {
    let text = sample("h").to_string().replace('.', "");
    let error = text.parse::<JoinString>().unwrap_err().to_string();
    assert!(!error.contains(&text[10..]), "{error}");
}
