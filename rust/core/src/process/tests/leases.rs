//! Workers leased for tasks: asked for in few messages, kept a while, given back.

use raymesh_wire::{ErrorKind, LeaseId, Message, ProcId, ReplyStatus, ToController};

use super::fake::Fake;
use super::net::{MILLI, Net, proc};
use super::retries::make_short;
use super::user::{ONCE, arguments, result};

fn demands(net: &Net) -> usize {
    net.count(|sent| matches!(&sent.2, Message::ToController(ToController::Demand { .. })))
}

impl Net {
    /// A process more, that waits for work.
    pub fn add_worker(&mut self, id: ProcId) {
        self.estates.started(id);
        self.procs.insert(id, crate::process::Process::new(id, super::net::CONTROLLER));
        for (to, message) in self.controller.add_worker(id) {
            self.tell(to, message);
        }
        self.run();
    }
}

#[test]
fn a_thousand_tasks_ask_for_workers_in_a_few_messages() {
    let mut net = Net::new(3);
    net.controller.stingy = true;
    let mut results = Vec::new();
    for _ in 0..1000 {
        results.extend(net.submit(proc(1), arguments(&[], &[]), ONCE));
    }
    assert!(demands(&net) <= 11, "{} messages", demands(&net));
    for (to, message) in net.controller.relent() {
        net.tell(to, message);
    }
    net.run();
    let mut served = 0;
    while let Some(worker) = [proc(2), proc(3)].into_iter().find(|id| net.procs[id].has_calls()) {
        let task = net.start(worker).call.task;
        net.end(worker, task, ReplyStatus::Ok, 50, result(""));
        served += 1;
    }
    assert_eq!(served, 1000);
    assert!(demands(&net) <= 60, "{} messages", demands(&net));
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn an_idle_worker_is_kept_for_the_next_task_and_then_returned() {
    let mut net = Net::new(2);
    for _ in 0..3 {
        let results = net.submit(proc(1), arguments(&[], &[]), ONCE);
        net.serve(proc(2));
        net.let_go(proc(1), &results);
        net.pass(15 * MILLI);
        assert_eq!(net.controller.lease_count(), 1);
    }
    assert_eq!(demands(&net), 1);
    net.pass(10 * MILLI);
    assert_eq!(net.controller.lease_count(), 0);
    net.assert_clean();
}

#[test]
fn a_grant_that_is_not_needed_any_more_is_returned() {
    let mut net = Net::new(4);
    let mut results = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.hold(super::net::CONTROLLER, proc(1));
    for _ in 0..2 {
        results.extend(net.submit(proc(1), arguments(&[], &[]), ONCE));
    }
    // The first worker is done with all of it before the others are told.
    net.end(proc(2), task, ReplyStatus::Ok, 1, result(""));
    net.serve(proc(2));
    net.serve(proc(2));
    net.resume(super::net::CONTROLLER, proc(1));
    assert!(net.controller.lease_count() > 1);
    net.pass(25 * MILLI);
    assert_eq!(net.controller.lease_count(), 0);
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn a_worker_that_others_need_is_returned_when_it_is_idle() {
    let mut net = Net::new(3);
    let busy = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let other = net.submit(proc(1), arguments(&[], &[]), ONCE);
    let task = net.start(proc(2)).call.task;
    net.serve(proc(3));
    assert_eq!(net.controller.lease_count(), 2);
    for (to, message) in Fake::reclaim(proc(1)) {
        net.tell(to, message);
    }
    net.run();
    assert_eq!(net.controller.lease_count(), 1, "the idle one at once");
    net.finish(proc(2), task, result(""));
    assert_eq!(net.controller.lease_count(), 0, "the other when its task is done");
    net.let_go(proc(1), &[busy[0], other[0]]);
    net.assert_clean();
}

/// Tasks that wait ask anew when the workers they would have had were taken back.
#[test]
fn tasks_that_wait_are_not_forgotten_when_workers_are_taken_back() {
    let mut net = Net::new(2);
    let mut results = Vec::new();
    for _ in 0..3 {
        results.extend(net.submit(proc(1), arguments(&[], &[]), ONCE));
    }
    for _ in 0..3 {
        for (to, message) in Fake::reclaim(proc(1)) {
            net.tell(to, message);
        }
        net.run();
        net.serve(proc(2));
    }
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn a_worker_that_is_known_to_be_dead_gets_nothing() {
    let mut net = Net::new(3);
    let first = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    net.start(proc(2));
    net.kill(proc(2));
    assert_eq!(net.error(proc(1), first), ErrorKind::WorkerCrashed);
    net.controller.stingy = true;
    let second = net.submit(proc(1), arguments(&[], &[]), ONCE)[0];
    let message = raymesh_wire::FromController::LeaseGranted { key: 0, lease: LeaseId(99), worker: proc(2) };
    net.tell(proc(1), message);
    for (to, message) in net.controller.relent() {
        net.tell(to, message);
    }
    net.run();
    net.serve(proc(3));
    net.let_go(proc(1), &[first, second]);
    net.assert_clean();
}

/// Nothing of a shape that can wait for long may be forgotten when its worker dies.
#[test]
fn a_dead_workers_tasks_find_another_one() {
    let mut net = Net::new(4);
    make_short(&mut net, proc(2));
    let results: Vec<_> = (0..6).flat_map(|_| net.submit(proc(1), arguments(&[], &[]), ONCE)).collect();
    net.start(proc(2));
    net.kill(proc(2));
    let mut served = 0;
    while let Some(worker) = [proc(3), proc(4)].into_iter().find(|id| net.procs[id].has_calls()) {
        net.serve(worker);
        served += 1;
    }
    assert_eq!(served, 5);
    net.let_go(proc(1), &results);
    net.assert_clean();
}
