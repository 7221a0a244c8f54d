//! What a stranger may say: greetings, hellos, answers, join strings.

#![no_main]

use libfuzzer_sys::fuzz_target;
use raymesh_net::JoinString;
use raymesh_net::hello::{decode_purpose, read_answer, read_greeting, read_hello};

fuzz_target!(|input: &[u8]| {
    if let Ok(Some((_, length))) = read_greeting(input) {
        assert!(length <= input.len());
    }
    if let Ok(Some((hello, length))) = read_hello(input) {
        assert!(length <= input.len());
        let _ = decode_purpose(&hello.purpose);
    }
    if let Ok(Some((_, length))) = read_answer(input) {
        assert!(length <= input.len());
    }
    let _ = decode_purpose(input);
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(join) = text.parse::<JoinString>()
    {
        let again: Result<JoinString, _> = join.to_string().parse();
        assert!(again.is_ok(), "{text:?}");
    }
});
