"""What runs on one host runs on several: tasks, actors, objects, names; and hosts may come and go."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raymesh as ray
from raymesh.exceptions import (
    ActorDiedError,
    NodeDiedError,
    ObjectLostError,
    RaySystemError,
)

Start = Callable[..., Any]

ONE = {"num_cpus": 2, "resources": {"one": 10}, "node_name": "one"}
TWO = {"num_cpus": 2, "resources": {"two": 10}, "node_name": "two"}
THREE = {"num_cpus": 2, "resources": {"three": 10}, "node_name": "three"}


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, n: int = 1) -> int:
        self.count += n
        return self.count

    def pid(self) -> int:
        return os.getpid()

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def make(self, n: int) -> np.ndarray[Any, Any]:
        return np.arange(n)

    def total(self, array: np.ndarray[Any, Any]) -> int:
        return int(array.sum())

    def tell(self, other: Any, n: int) -> int:
        return int(ray.get(other.add.remote(n)))

    def keep(self, box: list[Any]) -> None:
        self.box = box

    def kept(self) -> int:
        return int(ray.get(self.box[0]).sum())


@ray.remote
def double(x: Any) -> Any:
    return x * 2


@ray.remote
def fail() -> None:
    raise KeyError("far")


def on(resource: str) -> Any:
    return Counter.options(resources={resource: 1}).remote()


def test_tasks_run_where_their_resources_are(cluster: Start) -> None:
    cluster(ONE, TWO)
    refs = [
        double.options(resources={where: 1}).remote(n)
        for n in range(20)
        for where in ("one", "two")
    ]
    assert ray.get(refs) == [2 * n for n in range(20) for _ in range(2)]
    with pytest.raises(KeyError, match="far"):
        ray.get(fail.options(resources={"two": 1}).remote())


def test_calls_of_an_actor_far_away_come_in_order(cluster: Start) -> None:
    cluster(ONE, TWO)
    for where in ("one", "two"):
        actor = on(where)
        assert ray.get([actor.add.remote() for _ in range(500)]) == list(range(1, 501))


def test_large_objects_are_read_from_any_host(cluster: Start) -> None:
    cluster(ONE, TWO)
    one, two = on("one"), on("two")
    made = two.make.remote(2_000_000)
    total = sum(range(2_000_000))
    assert int(ray.get(made).sum()) == total
    assert not ray.get(made).flags.writeable
    assert ray.get([one.total.remote(made), two.total.remote(made)]) == [total, total]
    put = ray.put(np.ones(1_000_000, dtype=np.int64))
    assert ray.get([one.total.remote(put), two.total.remote(put)]) == [1_000_000, 1_000_000]
    ray.get([two.keep.remote([put]), one.keep.remote([made])])
    del put, made
    assert ray.get([two.kept.remote(), one.kept.remote()]) == [1_000_000, total]


def test_handles_and_names_work_from_host_to_host(cluster: Start) -> None:
    cluster(ONE, TWO)
    one = on("one")
    two = Counter.options(resources={"two": 1}, name="far", namespace="here").remote()
    assert ray.get(one.tell.remote(two, 5)) == 5
    assert ray.get(ray.get_actor("far", namespace="here").add.remote(1)) == 6
    assert ray.get(one.node.remote()) != ray.get(two.node.remote())


def test_memory_of_objects_far_away_comes_back(cluster: Start) -> None:
    cluster(ONE, {**TWO, "object_store_memory": 100 << 20})
    two = on("two")
    for _ in range(12):
        assert len(ray.get(two.make.remote(2_500_000))) == 2_500_000


def test_a_killed_worker_far_away_is_known_with_signal_and_pid(cluster: Start) -> None:
    cluster(ONE, TWO)
    two = on("two")
    pid = ray.get(two.pid.remote())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorDiedError, match="SIGKILL"):
        ray.get(two.add.remote())


@pytest.mark.faults
@pytest.mark.parametrize("graceful", [True, False])
def test_a_host_that_ends_takes_its_own_along_and_nothing_else(
    cluster: Start, graceful: bool
) -> None:
    made = cluster(ONE, TWO, THREE)
    one, two, three = on("one"), on("two"), on("three")
    object_far = three.make.remote(1_000_000)
    ray.wait([object_far])
    assert ray.get([two.add.remote(), three.add.remote()]) == [1, 1]
    waiting = double.options(resources={"three": 1}, max_retries=0).remote(object_far)
    ray.get(waiting)
    made.remove_node(made.worker_nodes[1], allow_graceful=graceful)
    with pytest.raises(ActorDiedError):
        ray.get(three.add.remote())
    with pytest.raises(ObjectLostError):
        ray.get(one.total.remote(object_far))
    assert ray.get([one.add.remote(), two.add.remote()]) == [1, 2]
    made.wait_for_nodes()


@pytest.mark.faults
def test_who_notices_first_that_a_host_is_killed_does_not_go_with_it(cluster: Start) -> None:
    made = cluster(ONE)
    one = on("one")
    for count in range(1, 7):
        node = made.add_node(**TWO)
        two = on("two")
        assert ray.get([one.add.remote(), one.tell.remote(two, 1)]) == [count, 1]
        assert ray.get(two.add.remote()) == 2
        node.kill_all_processes()
        made.worker_nodes.remove(node)
        with pytest.raises(ActorDiedError):
            ray.get(two.add.remote(), timeout=60)


@pytest.mark.faults
def test_a_host_that_falls_silent_is_dead_and_does_not_come_back(cluster: Start) -> None:
    made = cluster(ONE, TWO)
    two = on("two")
    assert ray.get(two.add.remote()) == 1
    node = made.worker_nodes[0]
    os.kill(node.pid, signal.SIGSTOP)
    # All its threads stand still.
    os.waitid(os.P_PID, node.pid, os.WSTOPPED)
    try:
        with pytest.raises(ActorDiedError):
            ray.get(two.add.remote(), timeout=60)
    finally:
        os.kill(node.pid, signal.SIGCONT)
    # It learns that it was declared dead, and ends with all that it has.
    assert node._launched.process.wait(60) == 1


@pytest.mark.faults
def test_the_end_of_the_head_ends_every_wait(cluster: Start) -> None:
    made = cluster(ONE, TWO)
    two = on("two")
    assert ray.get(two.add.remote()) == 1
    never = Counter.options(resources={"nowhere": 1}).remote()
    made.head_node.kill_all_processes()
    with pytest.raises(RaySystemError, match="head of the cluster is gone"):
        ray.get(never.add.remote(), timeout=60)
    for node in made.worker_nodes:
        assert node._launched.process.wait(60) == 1


def test_tasks_are_tried_again_on_another_host(cluster: Start) -> None:
    made = cluster(ONE, TWO, THREE)

    @ray.remote(max_retries=2)
    def slow() -> str:
        time.sleep(0.5)
        return str(ray.get_runtime_context().get_node_id())

    refs = [slow.remote() for _ in range(6)]
    time.sleep(0.2)
    made.remove_node(made.worker_nodes[0], allow_graceful=False)
    assert len(ray.get(refs, timeout=60)) == 6


def test_a_task_without_retries_says_that_its_host_is_lost(cluster: Start) -> None:
    made = cluster(ONE, TWO)

    @ray.remote(max_retries=0, resources={"two": 1})
    def slow() -> None:
        time.sleep(600)

    @ray.remote(resources={"two": 1})
    def begun() -> bool:
        return True

    ref = slow.remote()
    assert ray.get(begun.remote())
    made.remove_node(made.worker_nodes[0], allow_graceful=False)
    with pytest.raises(NodeDiedError):
        ray.get(ref, timeout=60)


def test_a_host_that_joins_is_used_at_once(cluster: Start) -> None:
    made = cluster(ONE)
    ref = double.options(resources={"two": 1}).remote(4)
    ready, _ = ray.wait([ref], timeout=0.3)
    assert ready == []
    made.add_node(**TWO)
    assert ray.get(ref, timeout=60) == 8


def test_the_driver_takes_no_work_and_is_no_node(cluster: Start) -> None:
    made = cluster(ONE, TWO)
    here = ray.get_runtime_context().get_node_id()
    nodes = {ray.get(Counter.remote().node.remote()) for _ in range(4)}
    assert here not in nodes
    assert len(ray.nodes()) == len(made.list_all_nodes()) == 2
    assert ray.cluster_resources()["CPU"] == 4
