//! Functions and classes: kept as long as something can need them, and no longer.

use bytes::Bytes;
use raymesh_wire::FunctionId;

use super::net::{Net, proc};
use super::user::{Options, arguments, inline, result};

/// What tasks and actors of the tests are made of.
const FUNCTION: FunctionId = FunctionId([7; 16]);
const CLASS: FunctionId = FunctionId([9; 16]);

impl Net {
    fn define(&mut self, id: FunctionId) {
        self.with(proc(1), |process, _, fx| process.define(id, &Bytes::from_static(b"code"), fx));
        self.run();
    }

    fn undefine(&mut self, id: FunctionId) {
        self.with(proc(1), |process, _, fx| process.undefine(id, fx));
        self.run();
    }

    fn keeps(&self, id: FunctionId) -> bool {
        self.controller.functions.contains(&(proc(1), id))
    }
}

#[test]
fn a_function_goes_with_the_last_object_that_stands_for_it() {
    let mut net = Net::new(2);
    net.define(FUNCTION);
    net.define(FUNCTION);
    net.undefine(FUNCTION);
    assert!(net.keeps(FUNCTION));
    net.undefine(FUNCTION);
    assert!(!net.keeps(FUNCTION));
    net.define(FUNCTION);
    assert!(net.keeps(FUNCTION), "it may come again");
    net.undefine(FUNCTION);
    net.assert_clean();
}

#[test]
fn a_call_that_may_run_again_keeps_its_function() {
    let mut net = Net::new(2);
    net.define(FUNCTION);
    let options = Options { retries: 1, returns: 1 };
    let results = net.submit(proc(1), arguments(&[], &[]), options);
    net.undefine(FUNCTION);
    net.start(proc(2));
    net.kill(proc(2));
    assert!(net.keeps(FUNCTION), "it runs again");
    net.add_worker(proc(3));
    let task = net.start(proc(3)).call.task;
    assert!(net.keeps(FUNCTION));
    net.finish(proc(3), task, result("done"));
    assert_eq!(net.value(proc(1), results[0]), inline("done"));
    assert!(!net.keeps(FUNCTION));
    net.let_go(proc(1), &results);
    net.assert_clean();
}

#[test]
fn an_actor_that_waits_for_its_arguments_keeps_its_class() {
    let mut net = Net::new(3);
    let argument = net.submit(proc(1), arguments(&[], &[]), Options { retries: 0, returns: 1 });
    net.define(CLASS);
    let actor = net.create(proc(1), arguments(&argument, &[]), 0);
    net.undefine(CLASS);
    assert!(net.keeps(CLASS), "the controller has not heard of the actor");
    let task = net.start(proc(2)).call.task;
    net.finish(proc(2), task, result("argument"));
    assert!(!net.keeps(CLASS), "from now on the actor keeps it");
    net.let_go(proc(1), &argument);
    net.end_actor(proc(1), actor);
    net.assert_clean();
}

#[test]
fn an_actor_whose_argument_fails_keeps_no_class() {
    let mut net = Net::new(2);
    let argument = net.submit(proc(1), arguments(&[], &[]), Options { retries: 0, returns: 1 });
    net.define(CLASS);
    let actor = net.create(proc(1), arguments(&argument, &[]), 0);
    net.undefine(CLASS);
    net.start(proc(2));
    net.kill(proc(2));
    assert!(!net.keeps(CLASS));
    net.let_go(proc(1), &argument);
    net.let_go(proc(1), &[crate::process::Process::actor_handle(actor)]);
    net.assert_clean();
}
