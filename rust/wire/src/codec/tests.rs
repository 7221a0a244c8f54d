//! Codes on the wire: written down twice, so that none changes by accident.

use super::*;
use crate::value::ERROR_KINDS;

/// A new kind does not compile here: append it to [`ERROR_KINDS`], and its code to this.
const fn expected(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Task => 0,
        ErrorKind::ActorInit => 1,
        ErrorKind::WorkerCrashed => 2,
        ErrorKind::ActorDied => 3,
        ErrorKind::ActorUnavailable => 4,
        ErrorKind::ObjectLost => 5,
        ErrorKind::OwnerDied => 6,
        ErrorKind::StoreFull => 7,
        ErrorKind::Cancelled => 8,
        ErrorKind::Unschedulable => 9,
        ErrorKind::ActorUnschedulable => 10,
        ErrorKind::PendingCallsLimit => 11,
        ErrorKind::System => 12,
        ErrorKind::Argument => 13,
        ErrorKind::NodeDied => 14,
        ErrorKind::Unrebuildable => 15,
        ErrorKind::GroupRemoved => 16,
        ErrorKind::ActorGroupRemoved => 17,
    }
}

#[test]
fn every_kind_of_error_has_its_code() {
    for (code, kind) in ERROR_KINDS.into_iter().enumerate() {
        assert_eq!(usize::from(expected(kind)), code, "{kind:?}");
        assert_eq!(usize::from(kind.code()), code, "{kind:?}");
        let value = Value::Error(ErrorValue::text(kind, "why"));
        let mut out = Vec::new();
        put_value(&mut out, &value);
        assert_eq!(get_value(&mut Bytes::from(out)), Ok(value));
    }
}

#[test]
fn failed_argument_carries_the_kind_and_text_of_its_failure() {
    let crashed = ErrorValue::text(ErrorKind::WorkerCrashed, "why");
    let outer = crashed.of_argument();
    assert_eq!(outer.kind, ErrorKind::Argument);
    assert_eq!(outer.argument(), Some(crashed));
    assert_eq!(outer.of_argument(), outer, "one level, however long the chain of calls");
    let raised = ErrorValue::text(ErrorKind::Task, "pickled");
    assert_eq!(raised.of_argument(), raised);
    assert_eq!(raised.argument(), None);
    let hostile = ErrorValue { kind: ErrorKind::Argument, payload: Bytes::new() };
    assert_eq!(hostile.argument(), None);
}

#[test]
fn death_of_an_actor_whose_argument_failed_says_why() {
    let raised = ErrorValue::text(ErrorKind::Task, "pickled");
    let death = raised.of_constructor_argument();
    assert_eq!((death.kind, &death.payload), (ErrorKind::ActorInit, &raised.payload));
    let crashed = ErrorValue::text(ErrorKind::WorkerCrashed, "no such signal");
    for failed in [crashed.of_argument(), crashed] {
        let death = failed.of_constructor_argument();
        assert_eq!(death.kind, ErrorKind::ActorDied);
        assert!(String::from_utf8_lossy(&death.payload).ends_with("failed: no such signal"));
    }
}

/// A list says that it is longer than what is left: refused before memory is set aside for it.
#[test]
fn lists_cannot_be_longer_than_the_message() {
    for (item_len, left, count, fits) in
        [(20, 40, 2, true), (20, 39, 2, false), (1, 0, u32::MAX, false), (5, 0, 0, true)]
    {
        let mut input = Vec::new();
        input.put_u32_le(count);
        input.resize(4 + left, 0);
        let got = get_list(&mut Bytes::from(input), item_len, |input| {
            input.advance(item_len);
            Ok(())
        });
        assert_eq!(got.is_ok(), fits, "{count} items of {item_len} bytes in {left}");
    }
}
