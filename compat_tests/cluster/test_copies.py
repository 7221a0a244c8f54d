"""Large objects on several hosts: one copy for each host, from whoever has one, in the room that there is."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raymesh as ray
from compat_tests.cluster.steps import until
from raymesh import _native
from raymesh.exceptions import ObjectLostError, ObjectStoreFullError

Start = Callable[..., Any]

MB = 1 << 20
HOME = {"resources": {"home": 100}, "object_store_memory": 400 * MB}
READERS = {"resources": {"readers": 100}, "object_store_memory": 200 * MB}
THIRD = {"resources": {"third": 100}, "object_store_memory": 200 * MB}
HEAD = {"num_cpus": 0, "object_store_memory": 200 * MB}


@ray.remote(num_cpus=0)
class Actor:
    def make(self, size: int, value: int = 7) -> np.ndarray[Any, Any]:
        array = np.arange(size, dtype=np.uint32).view(np.uint8)[:size]
        array[0] = value
        return array

    def keep(self, box: list[Any]) -> None:
        self.box = box

    def read(self, box: list[Any]) -> bool:
        self.array = ray.get(box[0])
        expected = np.arange(len(self.array), dtype=np.uint32).view(np.uint8)[: len(self.array)]
        return bool((self.array[1:] == expected[1:]).all())

    def let_go(self) -> None:
        self.array = None

    def pid(self) -> int:
        return os.getpid()


def on(resource: str) -> Any:
    return Actor.options(resources={resource: 1}).remote()


def store_used(resource: str) -> int:
    hosts = [host for host in _native.describe_cluster() if resource in host["total"]]
    return int(hosts[0]["store_used"])


def test_ten_readers_of_a_host_share_one_copy(cluster: Start) -> None:
    cluster(HOME, READERS)
    box = [on("home").make.remote(120 * MB)]
    ray.wait(box)
    readers = [on("readers") for _ in range(10)]
    # Two copies would not fit.
    assert all(ray.get([reader.read.remote(box) for reader in readers], timeout=60))
    # The host tells of its memory when that has changed.
    until(lambda: 120 * MB <= store_used("readers") < 130 * MB, "one copy")
    # It is there while one of them has it, whatever becomes of the others.
    os.kill(ray.get(readers[0].pid.remote()), signal.SIGKILL)
    ray.get([reader.let_go.remote() for reader in readers[1:-1]])
    assert ray.get(readers[-1].read.remote(box))
    del readers, box


@pytest.mark.faults
def test_a_copy_outlives_the_host_of_the_object(cluster: Start) -> None:
    started = cluster(HEAD, HOME, READERS, THIRD)
    box = [on("home").make.remote(50 * MB)]
    ray.wait(box)
    reader, other = on("readers"), on("third")
    assert ray.get(reader.read.remote(box))
    ray.get(other.pid.remote())
    started.remove_node(started.worker_nodes[0], allow_graceful=False)
    # It stays for the one who holds the object, not for its readers: longer than a copy that nobody uses.
    ray.get(reader.let_go.remote())
    time.sleep(4)
    # On the host that has the copy, on another one, and here.
    assert ray.get(on("readers").read.remote(box), timeout=60)
    assert ray.get(other.read.remote(box), timeout=60)
    assert len(ray.get(box[0], timeout=60)) == 50 * MB
    ray.get(other.let_go.remote())
    del box
    # And goes with it.
    until(lambda: store_used("readers") == store_used("third") == 0, "the end of the copies")


@pytest.mark.faults
def test_without_a_copy_the_object_is_lost(cluster: Start) -> None:
    started = cluster(HEAD, HOME, READERS)
    box = [ray.put(0), on("home").make.options(max_task_retries=0).remote(50 * MB)]
    ray.wait(box[1:])
    started.remove_node(started.worker_nodes[0], allow_graceful=False)
    with pytest.raises(ObjectLostError, match="cannot be made again"):
        ray.get(box[1], timeout=60)


def test_an_object_larger_than_the_store_says_so(cluster: Start) -> None:
    cluster(HOME, READERS)
    box = [on("home").make.remote(250 * MB)]
    ray.wait(box)
    reader = on("readers")
    with pytest.raises(ObjectStoreFullError):
        ray.get(reader.read.remote(box), timeout=60)
    small = [on("home").make.remote(20 * MB)]
    assert ray.get(reader.read.remote(small), timeout=60)


def test_a_copy_without_room_comes_when_there_is_some(cluster: Start) -> None:
    cluster(HOME, READERS)
    home = on("home")
    boxes = [[home.make.remote(120 * MB)] for _ in range(2)]
    for box in boxes:
        ray.wait(box)
    first, second = on("readers"), on("readers")
    assert ray.get(first.read.remote(boxes[0]))
    waits = second.read.remote(boxes[1])
    assert ray.wait([waits], timeout=1)[1]
    ray.get(first.let_go.remote())
    assert ray.get(waits, timeout=60)


def test_what_was_read_is_read_again_from_the_copy(cluster: Start) -> None:
    cluster(HOME, READERS)
    box = [on("home").make.remote(60 * MB)]
    reader = on("readers")
    for _ in range(20):
        assert ray.get(reader.read.remote(box))
        ray.get(reader.let_go.remote())


def test_many_hosts_get_it_at_once(cluster: Start) -> None:
    names = [f"host-{n}" for n in range(5)]
    hosts = [{"resources": {name: 10}, "object_store_memory": 120 * MB} for name in names]
    cluster(HOME, *hosts)
    box = [on("home").make.remote(64 * MB + 12345)]
    ray.wait(box)
    actors = [on(name) for name in names]
    ray.get([actor.pid.remote() for actor in actors])
    assert all(ray.get([actor.read.remote(box) for actor in actors], timeout=60))


@pytest.mark.faults
@pytest.mark.parametrize("victim", ["home", "between"])
def test_a_host_that_dies_while_an_object_spreads(cluster: Start, victim: str) -> None:
    names = [f"host-{n}" for n in range(4)]
    hosts = [{"resources": {name: 10}, "object_store_memory": 400 * MB} for name in names]
    started = cluster(HEAD, {**HOME, "object_store_memory": 400 * MB}, *hosts)
    box = [on("home").make.remote(300 * MB + 1)]
    ray.wait(box)
    actors = [on(name) for name in names]
    ray.get([actor.pid.remote() for actor in actors])
    reading = [actor.read.remote(box) for actor in actors]
    time.sleep(0.1)
    dies = started.worker_nodes[0 if victim == "home" else 1]
    started.remove_node(dies, allow_graceful=False)
    for at, answer in enumerate(reading):
        if victim == "between" and at == 0:
            continue
        try:
            assert ray.get(answer, timeout=60)
        except ObjectLostError:
            # It had not left its home when that died.
            assert victim == "home"
    del box


def test_many_threads_read_many_objects(cluster: Start) -> None:
    cluster(HOME, READERS)
    boxes = [[on("home").make.remote((1 + n) * MB + n, n)] for n in range(12)]
    answers: list[bool] = []

    def read(box: list[Any]) -> None:
        answers.append(len(ray.get(box[0])) >= MB)

    threads = [threading.Thread(target=read, args=(box,)) for box in boxes * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 36
    assert all(answers)


def test_where_an_object_lies_is_known(cluster: Start) -> None:
    from raymesh.experimental import get_local_object_locations, get_object_locations

    cluster(HOME, READERS)
    reader = on("readers")
    ref, small = on("home").make.remote(20 * MB), ray.put(1)
    ray.wait([ref])
    ray.get(reader.pid.remote())
    ids = {name: host["NodeID"] for host in ray.nodes() for name in host["Resources"]}
    found = get_object_locations([ref, small], 10_000)
    assert found[ref]["node_ids"] == [ids["home"]]
    assert found[ref]["object_size"] >= 20 * MB
    assert found[ref]["did_spill"] is False
    assert found[small]["node_ids"] == []
    assert ray.get(reader.read.remote([ref]))
    assert set(get_object_locations([ref])[ref]["node_ids"]) == {ids["home"], ids["readers"]}
    assert get_local_object_locations([ref])[ref]["node_ids"] == [ids["home"]]
    slow = ray.remote(num_cpus=0)(lambda: time.sleep(60)).remote()
    assert get_object_locations([slow])[slow] == {
        "node_ids": [],
        "object_size": None,
        "did_spill": False,
    }


class SlowToLoad:
    """Whoever unpickles it has to wait until somebody has opened and closed the other end of a FIFO."""

    def __init__(self, gate: Path) -> None:
        self.gate = gate

    def __reduce__(self) -> Any:
        return Path.read_bytes, (self.gate,)


def test_a_constructors_arguments_are_on_their_way_before_the_worker_gets_to_them(
    cluster: Start, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    cluster(HOME, READERS)
    array = on("home").make.remote(120 * MB)
    ray.wait([array], fetch_local=False)

    @ray.remote(num_cpus=0)
    class Late:
        slow = SlowToLoad(gate)

        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.size = len(array)

        def length(self) -> int:
            return self.size

    actor = Late.options(resources={"readers": 1}).remote(array)
    length = actor.length.remote()
    until(lambda: store_used("readers") >= 120 * MB, "the copy")
    assert ray.wait([length], timeout=0)[0] == [], "the copy came only when it was read"
    gate.write_bytes(b"")
    assert ray.get(length, timeout=30) == 120 * MB


def test_tasks_run_where_their_large_arguments_lie(cluster: Start) -> None:
    cluster(HEAD, *({**host, "num_cpus": 4} for host in (HOME, READERS, THIRD)))
    tags = ["home", "readers", "third"]
    arrays = [on(tag).make.remote(80 * MB) for tag in tags]
    ray.wait(arrays, num_returns=3, fetch_local=False)
    hosts = {
        tag: host["node_id"].hex()
        for tag in tags
        for host in _native.describe_cluster()
        if tag in host["total"]
    }

    @ray.remote
    def where(array: np.ndarray[Any, Any]) -> str:
        assert len(array) == 80 * MB
        return str(ray.get_runtime_context().get_node_id())

    for _ in range(3):
        ran = ray.get([where.remote(array) for array in arrays for _ in range(3)], timeout=60)
        assert ran == [hosts[tag] for tag in tags for _ in range(3)]
    # Nothing was moved for them.
    assert all(store_used(tag) < 90 * MB for tag in tags)
