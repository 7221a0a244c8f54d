//! A host is lost with its memory: what can be made again is, what cannot says why.

use raymesh_wire::{
    Block, ErrorKind, ErrorValue, FromController, HostId, Message, ObjectId, ProcId, Return, TaskId, Value,
};

use super::net::{Net, proc};
use super::user::{Options, arguments, inline, raised};
use crate::process::Lookup;

const DRIVER: ProcId = proc(1);
const OTHER: HostId = HostId(1);
const RETRIED: Options = Options { returns: 1, retries: 3 };

/// The `n`-th worker of a host.
const fn on(host: HostId, n: u32) -> ProcId {
    ProcId::new(host, 0, n)
}

/// A driver on host 0, and one worker on host 1.
fn two_hosts() -> Net {
    let mut net = Net::new(1);
    net.add_worker(on(OTHER, 1));
    net
}

impl Net {
    /// Runs the next call of a worker; its results are large.
    fn serve_large(&mut self, worker: ProcId, inside: &[ObjectId]) -> TaskId {
        let call = self.start(worker).call;
        let block = |net: &mut Self| Value::Stored(net.allocate(worker));
        let returns =
            (0..call.num_returns).map(|_| Return { value: block(self), refs: inside.to_vec() }).collect();
        self.finish(worker, call.task, returns);
        call.task
    }

    fn kept(&self) -> usize {
        self.procs[&DRIVER]
            .census()
            .iter()
            .find(|(what, _)| what.contains("kept to run"))
            .map_or(0, |it| it.1)
    }

    fn block_of(&self, id: ProcId, object: ObjectId) -> Block {
        self.value(id, object).block().unwrap_or_else(|| panic!("{object:?} is not large"))
    }

    fn reason(&self, object: ObjectId) -> String {
        let Value::Error(error) = self.value(DRIVER, object) else { panic!("{object:?} is no error") };
        assert_eq!(error.kind, ErrorKind::Unrebuildable);
        String::from_utf8_lossy(&error.payload).lines().next().unwrap_or_default().to_owned()
    }
}

#[test]
fn a_lost_result_is_made_again_when_somebody_wants_it() {
    let mut net = two_hosts();
    let result = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
    net.serve_large(on(OTHER, 1), &[]);
    net.lose_host(OTHER);
    net.add_worker(on(HostId(2), 1));
    assert!(net.try_start(on(HostId(2), 1)).is_none(), "nobody wants it yet");
    assert!(matches!(net.get(DRIVER, result), Lookup::Pending));
    let call = net.start(on(HostId(2), 1)).call;
    assert_eq!((call.task.object(1), call.attempt), (result, 1));
    let block = net.allocate(on(HostId(2), 1));
    net.finish(on(HostId(2), 1), call.task, vec![Return { value: Value::Stored(block), refs: vec![] }]);
    assert_eq!(net.block_of(DRIVER, result), block);
    net.let_go(DRIVER, &[result]);
    net.assert_clean();
}

/// What was between is neither held meanwhile nor forgotten.
#[test]
fn a_chain_of_lost_results_is_made_again_from_its_beginning() {
    let mut net = two_hosts();
    let worker = on(OTHER, 1);
    let mut last = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
    net.serve_large(worker, &[]);
    for _ in 0..3 {
        let next = net.submit(DRIVER, arguments(&[last], &[]), RETRIED)[0];
        net.let_go(DRIVER, &[last]);
        net.serve_large(worker, &[]);
        last = next;
    }
    assert_eq!(net.in_use().len(), 1, "only the last value is held");
    assert_eq!(net.kept(), 4);
    net.lose_host(OTHER);
    let worker = on(HostId(2), 1);
    net.add_worker(worker);
    net.get(DRIVER, last);
    for _ in 0..4 {
        net.serve_large(worker, &[]);
    }
    assert_eq!(net.block_of(DRIVER, last).host(), HostId(2));
    assert_eq!(net.in_use().len(), 1);
    net.let_go(DRIVER, &[last]);
    assert_eq!(net.kept(), 0);
    net.assert_clean();
}

/// A small value travels in the call, and cannot be lost; a `put` is held for the call.
#[test]
fn arguments_that_cannot_be_made_again_stay_with_the_call() {
    let mut net = two_hosts();
    let small = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
    net.serve(on(OTHER, 1));
    let put = net.put_stored(DRIVER, &[]);
    let inner = net.put(DRIVER, "inner", &[]);
    let result = net.submit(DRIVER, arguments(&[small, put], &[inner]), RETRIED)[0];
    net.let_go(DRIVER, &[small, put, inner]);
    net.serve_large(on(OTHER, 1), &[]);
    assert!(!net.knows(DRIVER, small) && net.knows(DRIVER, put) && net.knows(DRIVER, inner));
    net.lose_host(OTHER);
    let worker = on(HostId(2), 1);
    net.add_worker(worker);
    net.get(DRIVER, result);
    let call = net.start(worker).call;
    assert_eq!(call.deps[0], (small, inline("done")));
    assert_eq!(call.refs, [inner]);
    net.finish(worker, call.task, vec![Return { value: inline("small now"), refs: vec![] }]);
    assert_eq!(net.value(DRIVER, result), inline("small now"));
    net.let_go(DRIVER, &[result]);
    assert!(!net.knows(DRIVER, put));
    net.assert_clean();
}

#[test]
fn retries_are_spent_and_refusals_say_why() {
    let mut net = two_hosts();
    let once = net.submit(DRIVER, arguments(&[], &[]), Options { returns: 1, retries: 0 })[0];
    net.serve_large(on(OTHER, 1), &[]);
    let twice = net.submit(DRIVER, arguments(&[], &[]), Options { returns: 1, retries: 1 })[0];
    net.serve_large(on(OTHER, 1), &[]);
    net.lose_host(OTHER);
    net.add_worker(on(HostId(2), 1));
    net.get(DRIVER, once);
    assert_eq!(net.reason(once), "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED");
    net.get(DRIVER, twice);
    net.serve_large(on(HostId(2), 1), &[]);
    net.lose_host(HostId(2));
    net.get(DRIVER, twice);
    assert_eq!(net.reason(twice), "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED");
    net.let_go(DRIVER, &[once, twice]);
    net.assert_clean();
}

#[test]
fn calls_beyond_the_limit_are_forgotten_oldest_first() {
    let mut net = two_hosts();
    net.with(DRIVER, |process, _, fx| process.limit_lineage(900, fx));
    let results: Vec<ObjectId> = (0..3)
        .map(|_| {
            let result = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
            net.serve_large(on(OTHER, 1), &[]);
            result
        })
        .collect();
    assert_eq!(net.kept(), 2);
    net.lose_host(OTHER);
    net.get(DRIVER, results[0]);
    assert_eq!(net.reason(results[0]), "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED");
    net.add_worker(on(HostId(2), 1));
    net.get(DRIVER, results[1]);
    net.serve_large(on(HostId(2), 1), &[]);
    assert_eq!(net.block_of(DRIVER, results[1]).host(), HostId(2));
    net.let_go(DRIVER, &results);
    net.assert_clean();
}

/// Others keep their values, and what a second run returns for them is let go of.
#[test]
fn only_the_lost_ones_of_several_results_change() {
    let mut net = two_hosts();
    let results = net.submit(DRIVER, arguments(&[], &[]), Options { returns: 2, retries: -1 });
    let call = net.start(on(OTHER, 1)).call;
    let block = net.allocate(on(OTHER, 1));
    let first = |value| vec![Return { value, refs: vec![] }, Return { value: inline("first"), refs: vec![] }];
    net.finish(on(OTHER, 1), call.task, first(Value::Stored(block)));
    net.lose_host(OTHER);
    let worker = on(HostId(2), 1);
    net.add_worker(worker);
    net.get(DRIVER, results[0]);
    let call = net.start(worker).call;
    let blocks = [net.allocate(worker), net.allocate(worker)];
    let returns = blocks.map(|block| Return { value: Value::Stored(block), refs: vec![] });
    net.finish(worker, call.task, returns.to_vec());
    assert_eq!(net.block_of(DRIVER, results[0]), blocks[0]);
    assert_eq!(net.value(DRIVER, results[1]), inline("first"));
    assert_eq!(net.in_use(), [blocks[0]]);
    net.let_go(DRIVER, &results);
    net.assert_clean();
}

/// A reader on a third host finds out by itself, and is served again, references inside included.
#[test]
fn borrowers_get_what_was_made_again() {
    let mut net = two_hosts();
    let (reader, worker) = (on(HostId(2), 1), on(OTHER, 1));
    let result = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
    net.add_worker(reader);
    let reading = net.submit(DRIVER, arguments(&[], &[result]), RETRIED)[0];
    let call = net.start(reader).call;
    net.take(reader, result);
    net.serve_large(worker, &[]);
    net.get(reader, result);
    let before = net.block_of(reader, result);
    net.lose_host(OTHER);
    net.lose(reader, result, before);
    net.run();
    assert!(matches!(net.lookup(reader, result), Lookup::Pending));
    net.add_worker(on(HostId(3), 1));
    let inner = net.put_stored(on(HostId(3), 1), &[]);
    net.serve_large(on(HostId(3), 1), &[inner]);
    net.let_go(on(HostId(3), 1), &[inner]);
    assert_eq!(net.block_of(reader, result), net.block_of(DRIVER, result));
    assert!(net.knows(on(HostId(3), 1), inner));
    net.drop_ref(reader, result);
    net.finish(reader, call.task, vec![Return { value: raised("read"), refs: vec![] }]);
    net.let_go(DRIVER, &[result, reading]);
    assert!(!net.knows(on(HostId(3), 1), inner));
    net.assert_clean();
}

/// A worker that cannot read an argument does not sit on its resources until there is another.
#[test]
fn a_call_whose_argument_is_lost_goes_back_and_waits() {
    let mut net = two_hosts();
    let worker = on(HostId(2), 1);
    let result = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
    net.serve_large(on(OTHER, 1), &[]);
    net.controller.stingy = true;
    let next = net.submit(DRIVER, arguments(&[result], &[]), RETRIED)[0];
    net.add_worker(worker);
    net.pass(30_000_000);
    net.hold(super::net::CONTROLLER, DRIVER);
    for (to, message) in net.controller.relent() {
        net.tell(to, message);
    }
    net.lose_host(OTHER);
    net.resume(super::net::CONTROLLER, DRIVER);
    // The driver knew before it sent anything: what makes the argument again comes first.
    while let Some(incoming) = net.try_start(worker) {
        let call = incoming.call;
        let lost = call.deps.iter().find_map(|(object, value)| {
            Some((*object, value.block().filter(|block| block.host() == OTHER)?))
        });
        if let Some(lost) = lost {
            let raymesh_wire::CallTarget::Function { lease, .. } = call.target else { panic!("a task") };
            net.with(worker, |process, _, fx| process.give_back_call((call.task, lease), lost, fx));
            net.run();
            continue;
        }
        let block = net.allocate(worker);
        net.finish(worker, call.task, vec![Return { value: Value::Stored(block), refs: vec![] }]);
    }
    assert_eq!(net.block_of(DRIVER, next).host(), HostId(2));
    net.let_go(DRIVER, &[result, next]);
    net.assert_clean();
}

/// The reader's own host may be the one that is declared lost: then the first value is there still.
#[test]
fn what_was_out_of_reach_of_one_reader_is_freed_with_the_object() {
    let mut net = two_hosts();
    let result = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
    net.serve_large(on(OTHER, 1), &[]);
    let block = net.block_of(DRIVER, result);
    net.send(on(HostId(2), 1), DRIVER, Message::Lost { object: result, block });
    net.run();
    net.serve_large(on(OTHER, 1), &[]);
    assert_eq!(net.in_use().len(), 2);
    net.let_go(DRIVER, &[result]);
    assert!(net.in_use().is_empty());
    net.assert_clean();
}

#[test]
fn methods_run_again_only_if_they_may() {
    let mut net = two_hosts();
    let actor = net.create(DRIVER, arguments(&[], &[]), 1);
    let worker = on(OTHER, 1);
    let kept = net.call(DRIVER, actor, arguments(&[], &[]), RETRIED);
    let once = net.call(DRIVER, actor, arguments(&[], &[]), Options { returns: 1, retries: 0 });
    net.serve_large(worker, &[]);
    net.serve_large(worker, &[]);
    net.lose_host(OTHER);
    net.add_worker(on(HostId(2), 1));
    net.start_actors();
    net.run();
    net.get(DRIVER, once);
    assert_eq!(net.reason(once), "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED");
    net.get(DRIVER, kept);
    net.serve_large(on(HostId(2), 1), &[]);
    assert_eq!(net.block_of(DRIVER, kept).host(), HostId(2));
    net.let_go(DRIVER, &[once, kept]);
    net.end_actor(DRIVER, actor);
    net.assert_clean();
}

#[test]
fn a_call_that_waits_for_a_lost_argument_does_not_hold_up_the_one_of_the_same_actor_that_makes_it() {
    let mut net = two_hosts();
    let actor = net.create(DRIVER, arguments(&[], &[]), 1);
    let first = net.call(DRIVER, actor, arguments(&[], &[]), RETRIED);
    net.serve_large(on(OTHER, 1), &[]);
    let second = net.call(DRIVER, actor, arguments(&[first], &[]), RETRIED);
    net.start(on(OTHER, 1));
    net.lose_host(OTHER);
    let worker = on(HostId(2), 1);
    net.add_worker(worker);
    net.start_actors();
    net.run();
    assert_eq!(net.serve_large(worker, &[]).object(1), first);
    assert_eq!(net.serve_large(worker, &[]).object(1), second);
    assert_eq!(net.block_of(DRIVER, second).host(), HostId(2));
    net.let_go(DRIVER, &[first, second]);
    net.end_actor(DRIVER, actor);
    net.assert_clean();
}

/// It may have other results, which are lost later.
#[test]
fn a_call_that_cannot_run_again_now_holds_its_arguments_when_it_is_to_run_again_later() {
    let mut net = two_hosts();
    let reader = on(HostId(2), 1);
    let small = net.submit(DRIVER, arguments(&[], &[]), RETRIED)[0];
    let call = net.start(on(OTHER, 1)).call;
    net.finish(on(OTHER, 1), call.task, vec![Return { value: inline("small"), refs: vec![] }]);
    let pair = net.submit(DRIVER, arguments(&[small, small], &[]), Options { returns: 2, ..RETRIED });
    net.serve_large(on(OTHER, 1), &[]);
    net.let_go(DRIVER, &[small]);
    let removed = ErrorValue::text(ErrorKind::GroupRemoved, "removed");
    net.tell(DRIVER, FromController::Unschedulable { key: 0, error: removed });
    net.run();
    for result in &pair {
        let block = net.block_of(DRIVER, *result);
        net.send(reader, DRIVER, Message::Lost { object: *result, block });
        net.run();
        net.get(DRIVER, *result);
        let Value::Error(error) = net.value(DRIVER, *result) else { panic!("{result:?} is no error") };
        assert_eq!(error.kind, ErrorKind::GroupRemoved, "{error:?}");
    }
    net.let_go(DRIVER, &pair);
    net.assert_clean();
}
