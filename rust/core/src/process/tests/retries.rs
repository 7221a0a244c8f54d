//! Calls that run again: after a crash, after an exception that the caller wants tried again.

use raymesh_wire::{ErrorKind, Message, ObjectId, Reply, ReplyStatus, Return, Value};

use super::net::{Net, proc};
use super::user::{ONCE, Options, arguments, inline, raised, result};

const TWICE: Options = Options { returns: 1, retries: 1 };

fn boom() -> Vec<Return> {
    vec![Return { value: raised("boom"), refs: vec![] }]
}

/// Teaches the shape that its tasks are short, so that calls are sent ahead.
pub(super) fn make_short(net: &mut Net, worker: raymesh_wire::ProcId) {
    let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(worker).call.task;
    net.end(worker, task, ReplyStatus::Ok, 100, result("short"));
    net.let_go(proc(1), &results);
}

#[test]
fn a_crashed_worker_costs_a_retry_and_then_the_task() {
    let mut net = Net::new(3);
    let object = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[object], &[]), TWICE);
    net.let_go(proc(1), &[object]);
    assert_eq!(net.start(proc(2)).call.attempt, 0);
    net.kill(proc(2));
    let call = net.start(proc(3)).call;
    assert_eq!(call.attempt, 1);
    assert_eq!(call.deps.len(), 1);
    assert!(matches!(call.deps[0].1, Value::Stored(_)), "the arguments go along again");
    net.kill(proc(3));
    assert_eq!(net.error(proc(1), results[0]), ErrorKind::WorkerCrashed);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn retries_without_end_do_not_end() {
    let mut net = Net::new(20);
    let results = net.submit(proc(1), arguments(&[], &[]), Options { returns: 1, retries: -1 });
    for worker in 2..20 {
        assert_eq!(net.start(proc(worker)).call.attempt, worker - 2);
        net.kill(proc(worker));
    }
    net.serve(proc(20));
    assert_eq!(net.value(proc(1), results[0]), inline("done"));
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// What was sent ahead and had not started runs elsewhere and has lost nothing, in the same order.
#[test]
fn only_the_head_of_the_pipeline_pays_for_a_crash() {
    let mut net = Net::new(2);
    make_short(&mut net, proc(2));
    let objects: Vec<ObjectId> = (0..4).map(|_| net.put_stored(proc(1), &[])).collect();
    let results: Vec<_> =
        objects.iter().flat_map(|object| net.submit(proc(1), arguments(&[*object], &[]), ONCE)).collect();
    net.let_go(proc(1), &objects);
    net.start(proc(2));
    assert!(net.procs[&proc(2)].has_calls());
    net.kill(proc(2));
    assert_eq!(net.error(proc(1), results[0]), ErrorKind::WorkerCrashed);
    net.add_worker(proc(3));
    for result in &results[1..] {
        let call = net.start(proc(3)).call;
        assert_eq!((call.task.object(1), call.attempt), (*result, 0));
        net.finish(proc(3), call.task, vec![Return { value: inline(""), refs: vec![] }]);
    }
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// What an argument contains goes along with each sending, once.
#[test]
fn a_call_that_is_sent_again_does_not_grow() {
    let mut net = Net::new(2);
    make_short(&mut net, proc(2));
    let inner = net.put_stored(proc(1), &[]);
    let outer = net.put(proc(1), "outer", &[inner]);
    let head = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let last = net.submit(proc(1), arguments(&[outer], &[]), Options { returns: 1, retries: -1 })[0];
    net.let_go(proc(1), &[inner, outer]);
    for worker in 3..6 {
        net.start(proc(worker - 1));
        net.kill(proc(worker - 1));
        net.add_worker(proc(worker));
    }
    let call = net.start(proc(5)).call;
    assert_eq!(call.refs, vec![inner]);
    net.finish(proc(5), call.task, vec![Return { value: inline(""), refs: vec![] }]);
    net.let_go(proc(1), &[head, last]);
    net.assert_clean();
}

#[test]
fn an_exception_to_be_tried_again_runs_again_as_often_as_it_may() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), TWICE);
    let call = net.start(proc(2)).call;
    net.end(proc(2), call.task, ReplyStatus::RaisedRetryable, 1, boom());
    let call = net.start(proc(2)).call;
    assert_eq!(call.attempt, 1);
    net.end(proc(2), call.task, ReplyStatus::RaisedRetryable, 1, boom());
    assert_eq!(net.value(proc(1), results[0]), raised("boom"));
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// The exception of an attempt that does not count is nobody's: what it refers to is given back.
#[test]
fn references_in_the_error_of_a_given_up_attempt_are_given_back() {
    let mut net = Net::new(2);
    let results = net.submit(proc(1), arguments(&[], &[]), TWICE);
    let task = net.start(proc(2)).call.task;
    let (inner, block) = (net.put_stored(proc(2), &[]), net.allocate(proc(2)));
    let returns = vec![
        Return { value: raised("inner inside"), refs: vec![inner] },
        Return { value: Value::Stored(block), refs: vec![] },
    ];
    net.end(proc(2), task, ReplyStatus::RaisedRetryable, 1, returns);
    net.let_go(proc(2), &[inner]);
    assert_eq!(net.in_use().len(), 0);
    net.serve(proc(2));
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// An attempt that raised kept an argument; the next one does not.
#[test]
fn what_a_given_up_attempt_keeps_is_registered() {
    let mut net = Net::new(2);
    let object = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[], &[object]), TWICE);
    let task = net.start(proc(2)).call.task;
    net.take(proc(2), object);
    net.end(proc(2), task, ReplyStatus::RaisedRetryable, 1, boom());
    net.serve(proc(2));
    net.let_go(proc(1), &[object]);
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(2), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// A reply of an attempt that was given up comes after all.
#[test]
fn a_stale_reply_is_discarded_with_its_memory_and_references() {
    let mut net = Net::new(3);
    let object = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[], &[object]), TWICE);
    let task = net.start(proc(2)).call.task;
    net.kill(proc(2));
    net.start(proc(3));
    // As if the first worker lived on somewhere.
    let (inner, block) = (net.put_stored(proc(3), &[]), net.allocate(proc(3)));
    let returns = vec![Return { value: Value::Stored(block), refs: vec![inner] }];
    net.send(proc(3), proc(1), Message::Borrow { holds: vec![(object, proc(1))] });
    let stale = Reply {
        task,
        attempt: 0,
        status: ReplyStatus::Ok,
        exec_us: 1,
        returns,
        holds: vec![],
        places: vec![],
    };
    net.with(proc(3), |process, _, fx| {
        process.receive(0, proc(3), Message::Borrow { holds: vec![(inner, proc(1))] }, fx);
    });
    net.send(proc(3), proc(1), Message::Reply(Box::new(stale)));
    net.let_go(proc(3), &[inner]);
    assert_eq!(net.in_use().len(), 1, "only the argument is left");
    net.finish(proc(3), task, result("second"));
    assert_eq!(net.value(proc(1), results[0]), inline("second"));
    net.let_go(proc(1), &[object, results[0]]);
    net.assert_clean();
}

/// What a reply says of a call that is over is true of the worker, not of the call.
#[test]
fn holds_in_a_stale_reply_are_registered() {
    let mut net = Net::new(3);
    let object = net.put_stored(proc(1), &[]);
    let results = net.submit(proc(1), arguments(&[], &[object]), TWICE);
    let task = net.start(proc(2)).call.task;
    net.kill(proc(2));
    net.start(proc(3));
    net.take(proc(3), object);
    let stale = Reply {
        task,
        attempt: 0,
        status: ReplyStatus::Ok,
        exec_us: 1,
        returns: vec![],
        holds: vec![object],
        places: vec![],
    };
    net.send(proc(3), proc(1), Message::Reply(Box::new(stale)));
    net.finish(proc(3), task, result("second"));
    net.let_go(proc(1), &[object, results[0]]);
    assert_eq!(net.in_use().len(), 1);
    // One hold by the stale reply, one by the good one.
    net.send(proc(3), proc(1), Message::Release { holds: vec![(object, proc(1), 1)] });
    net.run();
    assert_eq!(net.in_use().len(), 1);
    net.let_go(proc(3), &[object]);
    assert_eq!(net.in_use().len(), 0);
    net.assert_clean();
}
