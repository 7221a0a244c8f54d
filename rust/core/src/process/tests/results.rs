//! Results: references in them, results that nobody wants, too few and too many.

use raymesh_wire::{ErrorKind, ReplyStatus, Return, Value};

use super::net::{Net, proc};
use super::user::{ONCE, Options, arguments, inline, raised, result};

#[test]
fn references_in_a_result_are_the_callers() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.put_stored(proc(2), &[]);
    net.finish(proc(2), task, vec![Return { value: inline("inner inside"), refs: vec![inner] }]);
    net.let_go(proc(2), &[inner]);
    assert_eq!(net.in_use().len(), 1);
    net.take(proc(1), inner);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(1), &[inner]);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

/// Who waits for many results ends the wait with the first that failed.
#[test]
fn an_error_is_told_from_a_value_by_its_flag() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), Options { returns: 2, ..ONCE });
    let flags: Vec<_> =
        results.iter().map(|object| net.with(proc(1), |core, _, _| core.hold(*object))).collect();
    assert!(flags.iter().all(|flag| !flag.is_ready() && !flag.is_error()));
    let seen = net.with(proc(1), |core, _, _| core.errors_seen());
    let task = net.start(proc(2)).call.task;
    let failed = Return { value: raised("late"), refs: vec![] };
    net.finish(proc(2), task, vec![result("early").remove(0), failed]);
    assert!(flags.iter().all(|flag| flag.is_ready()));
    assert_eq!([flags[0].is_error(), flags[1].is_error()], [false, true]);
    assert_eq!(net.with(proc(1), |core, _, _| core.errors_seen()), seen + 1);
    net.let_go(proc(1), &results);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// The owner of what is in the result is neither the caller nor the worker.
#[test]
fn a_third_partys_reference_in_a_result_survives_the_worker() {
    let mut net = Net::new(3);
    let object = net.put_stored(proc(1), &[]);
    let outer = net.submit(proc(1), arguments(&[], &[object]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.submit(proc(2), arguments(&[], &[object]), ONCE);
    let inner_task = net.start(proc(3)).call.task;
    let back = Return { value: inline("object inside"), refs: vec![object] };
    net.finish(proc(3), inner_task, vec![back]);
    net.finish(proc(2), task, result(""));
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 1, "process 2 holds it by the result of process 3");
    net.let_go(proc(2), &inner);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &outer);
    net.assert_clean();
}

#[test]
fn a_result_that_nobody_awaits_any_more_is_freed_with_what_it_contains() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.let_go(proc(1), &results);
    let inner = net.put_stored(proc(2), &[]);
    let block = net.allocate(proc(2));
    net.finish(proc(2), task, vec![Return { value: Value::Stored(block), refs: vec![inner] }]);
    net.let_go(proc(2), &[inner]);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

#[test]
fn results_beyond_those_declared_are_freed_and_missing_ones_are_errors() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), Options { returns: 2, retries: 0 });
    let task = net.start(proc(2)).call.task;
    net.finish(proc(2), task, result("one"));
    assert_eq!(net.value(proc(1), results[0]), inline("one"));
    assert_eq!(net.error(proc(1), results[1]), ErrorKind::System);
    let more = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let blocks = [net.allocate(proc(2)), net.allocate(proc(2))];
    let returns = blocks.map(|block| Return { value: Value::Stored(block), refs: vec![] });
    net.finish(proc(2), task, returns.to_vec());
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(1), &[results[0], results[1], more[0]]);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

#[test]
fn a_call_without_results_lets_go_of_its_arguments() {
    let mut net = Net::new(2);
    let object = net.put_stored(proc(1), &[]);
    assert_eq!(net.submit(proc(1), arguments(&[object], &[]), Options { returns: 0, retries: 0 }), vec![]);
    net.let_go(proc(1), &[object]);
    net.serve(proc(2));
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

#[test]
fn references_in_an_error_are_kept_as_long_as_the_error() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    let inner = net.put_stored(proc(2), &[]);
    let error = Return { value: raised("inner inside"), refs: vec![inner] };
    net.end(proc(2), task, ReplyStatus::Raised, 1, vec![error]);
    net.let_go(proc(2), &[inner]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(1), &results);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}

/// The caller is gone when the reply comes: what was registered for it, it does not hold.
#[test]
fn a_reply_to_a_dead_caller_leaves_nothing() {
    let mut net = Net::new(3);
    let outer = net.submit(proc(1), arguments(&[], &[]), ONCE);
    net.start(proc(2));
    let inner = net.submit(proc(2), arguments(&[], &[]), ONCE);
    let task = net.start(proc(3)).call.task;
    assert_eq!(task, inner[0].task());
    net.kill(proc(2));
    let object = net.put_stored(proc(3), &[]);
    net.finish(proc(3), task, vec![Return { value: inline("object inside"), refs: vec![object] }]);
    net.let_go(proc(3), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &outer);
    net.assert_clean();
}
