//! Where tasks are wanted, by what they are given.

use raymesh_wire::{HostId, Message, ObjectId, ProcId, Return, ToController, Value};

use super::net::{Net, proc};
use super::user::{ONCE, arguments, result};

const DRIVER: ProcId = proc(1);

const fn on(host: u32) -> ProcId {
    ProcId::new(HostId(host), 0, 1)
}

impl Net {
    /// Lets a worker of each of the hosts 1, 2 and so on make an object of so many bytes.
    fn make(&mut self, sizes: &[u64]) -> Vec<ObjectId> {
        let objects: Vec<_> =
            sizes.iter().flat_map(|_| self.submit(DRIVER, arguments(&[], &[]), ONCE)).collect();
        for (len, host) in sizes.iter().zip(1..) {
            let call = self.start(on(host)).call;
            let value = Value::Stored(self.allocate_len(on(host), *len));
            self.finish(on(host), call.task, vec![Return { value, refs: vec![] }]);
        }
        objects
    }

    /// Submits a task, and says where it is wanted and ends it.
    fn wanted_near(&mut self, deps: &[ObjectId]) -> Option<HostId> {
        self.pass(super::net::MILLI * 50);
        let said = self.log.len();
        let object = self.submit(DRIVER, arguments(deps, &[]), ONCE)[0];
        let near = self.log[said..].iter().find_map(|(_, _, message)| match message {
            Message::ToController(ToController::Demand { near, backlog: 1.., .. }) => Some(*near),
            _ => None,
        });
        let workers: Vec<_> = self.procs.keys().copied().filter(|it| *it != DRIVER).collect();
        let (worker, call) =
            workers.iter().find_map(|it| Some((*it, self.try_start(*it)?.call))).expect("it runs");
        self.finish(worker, call.task, result(""));
        self.let_go(DRIVER, &[object]);
        near.expect("it is wanted")
    }
}

fn net(hosts: u32) -> Net {
    let mut net = Net::new(1);
    (1..=hosts).for_each(|host| net.add_worker(on(host)));
    net
}

const KB: u64 = 1 << 10;

#[test]
fn a_task_is_wanted_where_most_bytes_of_its_arguments_lie() {
    let mut net = net(2);
    let objects = net.make(&[300 * KB, 500 * KB]);
    assert_eq!(net.wanted_near(&objects), Some(HostId(2)));
    assert_eq!(net.wanted_near(&objects[..1]), Some(HostId(1)));
    assert_eq!(net.wanted_near(&[]), None);
    net.let_go(DRIVER, &objects);
    net.assert_clean();
}

#[test]
fn what_is_moved_quickly_parts_no_tasks() {
    let mut net = net(2);
    let objects = net.make(&[64 * KB, 99 * KB]);
    assert_eq!(net.wanted_near(&objects), None);
    net.let_go(DRIVER, &objects);
    net.assert_clean();
}

#[test]
fn on_one_host_large_arguments_part_no_tasks() {
    let mut net = Net::new(2);
    let object = net.submit(DRIVER, arguments(&[], &[]), ONCE)[0];
    let call = net.start(proc(2)).call;
    let value = Value::Stored(net.allocate_len(proc(2), 1000 * KB));
    net.finish(proc(2), call.task, vec![Return { value, refs: vec![] }]);
    assert_eq!(net.wanted_near(&[object]), None);
    net.let_go(DRIVER, &[object]);
    net.assert_clean();
}
