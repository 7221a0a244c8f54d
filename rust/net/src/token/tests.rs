use super::*;

const NONCES: Nonces = Nonces { acceptor: [1; 32], dialer: [2; 32] };

#[test]
fn a_proof_is_good_for_its_side_its_handshake_and_its_connection_only() {
    let token = Token::from_bytes([9; 32]);
    let proof = token.prove(Side::Dialer, &NONCES, b"exporter");
    assert!(token.check(Side::Dialer, &NONCES, b"exporter", &proof));
    assert!(!token.check(Side::Acceptor, &NONCES, b"exporter", &proof), "sent back as the other's");
    assert!(!token.check(Side::Dialer, &NONCES, b"another", &proof), "passed on to another connection");
    let others = Nonces { dialer: [3; 32], ..NONCES };
    assert!(!token.check(Side::Dialer, &others, b"exporter", &proof), "played again");
    assert!(!Token::from_bytes([8; 32]).check(Side::Dialer, &NONCES, b"exporter", &proof));
}

#[test]
fn a_token_is_never_shown() {
    assert_eq!(format!("{:?}", Token::from_bytes([9; 32])), "Token(..)");
}

#[test]
fn tokens_differ() {
    assert_ne!(Token::generate().unwrap(), Token::generate().unwrap());
}
