//! Calls sent ahead to a worker, and taken back.

use raymesh_wire::{LeaseId, Message, ObjectId, ReplyStatus, ToController};

use super::super::leases::pipeline_depth;
use super::net::{MILLI, Net, proc};
use super::retries::make_short;
use super::user::{ONCE, Options, arguments, result};

fn submit_many(net: &mut Net, count: usize) -> Vec<ObjectId> {
    (0..count).flat_map(|_| net.submit(proc(1), arguments(&[], &[]), ONCE)).collect()
}

/// Runs all that is there, by turns, and answers how many each worker ran.
fn serve_all(net: &mut Net, workers: &[u32]) -> Vec<usize> {
    let mut served = vec![0; workers.len()];
    loop {
        let mut idle = true;
        for (at, worker) in workers.iter().enumerate() {
            if let Some(incoming) = net.try_start(proc(*worker)) {
                net.end(proc(*worker), incoming.call.task, ReplyStatus::Ok, 100, result(""));
                served[at] += 1;
                idle = false;
            }
        }
        if idle {
            return served;
        }
    }
}

#[test]
fn long_tasks_are_not_sent_ahead() {
    let mut net = Net::new(2);
    let results = submit_many(&mut net, 3);
    let task = net.start(proc(2)).call.task;
    assert!(!net.procs[&proc(2)].has_calls(), "nothing is known of their length yet");
    net.end(proc(2), task, ReplyStatus::Ok, 50_000, result(""));
    net.start(proc(2));
    assert!(!net.procs[&proc(2)].has_calls(), "they are long");
    net.finish(proc(2), results[1].task(), result(""));
    net.serve(proc(2));
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn an_idle_worker_takes_over_half_of_what_another_has() {
    let mut net = Net::new(3);
    make_short(&mut net, proc(2));
    let first = submit_many(&mut net, 16);
    assert!(!net.procs[&proc(3)].has_calls(), "all went to the worker that is there");
    // Work for a second worker comes: more than fits.
    let more = submit_many(&mut net, 40);
    let served = serve_all(&mut net, &[2, 3]);
    assert_eq!(served.iter().sum::<usize>(), 56);
    assert!(served[1] >= 8, "the second worker had {} of 56", served[1]);
    net.let_go(proc(1), &first);
    net.let_go(proc(1), &more);
    net.assert_clean();
}

/// Short tasks were seen, long ones come: they must not queue behind each other on one worker.
#[test]
fn tasks_that_turn_out_long_are_taken_back_for_other_workers() {
    let mut net = Net::new(4);
    make_short(&mut net, proc(2));
    net.pass(100 * MILLI);
    let results = submit_many(&mut net, 3);
    let busy = |net: &Net| (2..=4).filter(|n| net.procs[&proc(*n)].has_calls()).collect::<Vec<_>>();
    let first = busy(&net);
    assert_eq!(first.len(), 1, "all three go to one worker");
    let mut running = vec![(first[0], net.start(proc(first[0])).call.task)];
    // It does not come back within the time that was expected of all three.
    net.pass(20 * MILLI);
    let others = busy(&net);
    assert_eq!(others.len(), 2, "the two others have a worker each");
    running.extend(others.into_iter().map(|n| (n, net.start(proc(n)).call.task)));
    for (worker, task) in running {
        net.finish(proc(worker), task, result(""));
    }
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// A worker finishes its call, and what it had not begun goes to another one: it is idle then, and must
/// not be kept.
#[test]
fn a_worker_left_without_work_by_a_recall_is_returned() {
    let mut net = Net::new(3);
    let first = submit_many(&mut net, 2);
    for worker in [2, 3] {
        let task = net.start(proc(worker)).call.task;
        net.end(proc(worker), task, ReplyStatus::Ok, 100, result(""));
    }
    // Two workers, idle, known for short tasks: two calls for each.
    let second = submit_many(&mut net, 4);
    // The reply of the second comes just before what it gives back to the first.
    net.hold(proc(3), proc(1));
    let task = net.start(proc(3)).call.task;
    net.end(proc(3), task, ReplyStatus::Ok, 100, result(""));
    net.serve(proc(2));
    net.serve(proc(2));
    assert!(net.try_start(proc(3)).is_none(), "it gave the other back");
    net.resume(proc(3), proc(1));
    assert_eq!(serve_all(&mut net, &[2, 3]), vec![1, 0]);
    net.pass(100 * MILLI);
    assert_eq!(net.controller.lease_count(), 0);
    net.let_go(proc(1), &first);
    net.let_go(proc(1), &second);
    net.assert_clean();
}

fn lease_of(net: &Net, worker: u32) -> LeaseId {
    let leases = (1..100).map(LeaseId);
    leases
        .into_iter()
        .find(|lease| net.controller.worker_of(*lease) == Some(proc(worker)))
        .expect("the worker is not leased")
}

#[test]
fn calls_behind_one_that_waits_go_to_other_workers() {
    let mut net = Net::new(3);
    make_short(&mut net, proc(2));
    let results = submit_many(&mut net, 4);
    let head = net.start(proc(2)).call.task;
    net.with(proc(2), |process, _, fx| process.block(&[], fx));
    net.run();
    assert!(net.controller.blocked.contains(&proc(2)));
    assert!(!net.procs[&proc(2)].has_calls());
    assert_eq!(serve_all(&mut net, &[3]), vec![3]);
    net.with(proc(2), |process, _, fx| process.unblock(fx));
    net.finish(proc(2), head, result(""));
    assert!(net.controller.blocked.is_empty());
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// The only worker waits: what comes back from it is not sent there again and again.
#[test]
fn a_worker_that_waits_is_not_offered_the_same_calls_again() {
    let mut net = Net::new(2);
    make_short(&mut net, proc(2));
    let mut results = submit_many(&mut net, 4);
    let head = net.start(proc(2)).call.task;
    net.with(proc(2), |process, _, fx| process.block(&[], fx));
    net.run();
    let before = net.count(|sent| matches!(sent.2, Message::Recalled { .. }));
    results.extend(submit_many(&mut net, 20));
    let bounced = net.count(|sent| matches!(sent.2, Message::Recalled { .. })) - before;
    assert_eq!(bounced, 0, "calls go back and forth");
    net.with(proc(2), |process, _, fx| process.unblock(fx));
    net.finish(proc(2), head, result(""));
    assert_eq!(serve_all(&mut net, &[2]), vec![23]);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// A call is on its way to the worker when that begins to wait.
#[test]
fn a_call_that_meets_a_waiting_worker_comes_back() {
    let mut net = Net::new(3);
    make_short(&mut net, proc(2));
    let mut results = submit_many(&mut net, 1);
    let head = net.start(proc(2)).call.task;
    net.hold(proc(1), proc(2));
    results.extend(submit_many(&mut net, 1));
    net.with(proc(2), |process, _, fx| process.block(&[], fx));
    net.resume(proc(1), proc(2));
    net.serve(proc(3));
    net.with(proc(2), |process, _, fx| process.unblock(fx));
    net.finish(proc(2), head, result(""));
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// A worker can give back only what it was sent.
#[test]
fn calls_that_another_worker_runs_are_not_taken_back() {
    let mut net = Net::new(3);
    let results = submit_many(&mut net, 2);
    let tasks: Vec<_> = results.iter().map(|result| result.task()).collect();
    net.start(proc(2));
    net.start(proc(3));
    let lease = lease_of(&net, 2);
    net.send(proc(2), proc(1), Message::Recalled { lease, tasks: vec![tasks[1]] });
    net.send(proc(2), proc(1), Message::Recalled { lease: LeaseId(77), tasks: tasks.clone() });
    net.run();
    net.finish(proc(2), tasks[0], result(""));
    net.finish(proc(3), tasks[1], result(""));
    assert_eq!(serve_all(&mut net, &[2, 3]), vec![0, 0], "a call runs twice");
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn a_worker_that_dies_while_calls_are_taken_back_loses_none() {
    let mut net = Net::new(3);
    let first = submit_many(&mut net, 2);
    for worker in [2, 3] {
        let task = net.start(proc(worker)).call.task;
        net.end(proc(worker), task, ReplyStatus::Ok, 100, result(""));
    }
    let second: Vec<_> = (0..6)
        .flat_map(|_| net.submit(proc(1), arguments(&[], &[]), Options { returns: 1, retries: 1 }))
        .collect();
    net.start(proc(2));
    net.hold(proc(1), proc(2));
    while let Some(incoming) = net.try_start(proc(3)) {
        net.end(proc(3), incoming.call.task, ReplyStatus::Ok, 100, result(""));
    }
    assert_eq!(net.count(|sent| matches!(sent.2, Message::Recall { .. })), 1);
    net.kill(proc(2));
    serve_all(&mut net, &[3]);
    for result in &second {
        assert!(!matches!(net.lookup(proc(1), *result), crate::process::Lookup::Pending));
    }
    net.let_go(proc(1), &first);
    net.let_go(proc(1), &second);
    net.assert_clean();
}

#[test]
fn work_for_one_worker_asks_for_no_second_one() {
    let mut net = Net::new(2);
    make_short(&mut net, proc(2));
    let before = net.count(|sent| matches!(sent.2, Message::ToController(ToController::Demand { .. })));
    let results = submit_many(&mut net, 10);
    serve_all(&mut net, &[2]);
    let after = net.count(|sent| matches!(sent.2, Message::ToController(ToController::Demand { .. })));
    assert_eq!(after - before, 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

/// A worker on another host, half a second there and back: without calls on their way it would stand still.
#[test]
fn the_further_a_worker_is_the_more_is_on_its_way_to_it() {
    assert_eq!(pipeline_depth(None, 500 * MILLI), 1);
    assert_eq!(pipeline_depth(Some(100), 0), 20);
    assert_eq!(pipeline_depth(Some(1), 0), 64);
    assert_eq!(pipeline_depth(Some(10_000), 0), 1);
    assert_eq!(pipeline_depth(Some(10_000), 500 * MILLI), 50);
    assert_eq!(pipeline_depth(Some(1), 500 * MILLI), 1024);
    assert_eq!(pipeline_depth(Some(10_000_000), 500 * MILLI), 1);
}
