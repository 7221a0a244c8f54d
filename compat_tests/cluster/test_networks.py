"""Hosts in network namespaces of their own: cables that are cut, packets that are lost, connections that are reset."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raymesh as ray
from compat_tests.harness.leaks import Belongings, leaked_since
from raymesh.exceptions import ActorDiedError, NodeDiedError, ObjectLostError

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "nft"))),
        reason="network namespaces need root, iproute2 and nftables",
    ),
]


def _netem() -> bool:
    """Whether this kernel can delay packets: tried in a namespace that nobody else is in."""
    rule = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    try:
        done = subprocess.run(["unshare", "-n", *rule], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


DELAYS = _netem()
Start = Callable[..., Any]
ONE = {"num_cpus": 2, "resources": {"one": 10}}
TWO = {"num_cpus": 2, "resources": {"two": 10}}
THREE = {"num_cpus": 2, "resources": {"three": 10}}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """A cluster with this process as driver, which stands outside of the namespaces."""
    from raymesh.cluster_utils import Cluster

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = Belongings.now()
    made = Cluster(shutdown_at_exit=False, network_namespaces=True)

    def start(*hosts: dict[str, Any]) -> Any:
        for options in hosts:
            made.add_node(**options)
        ray.init(address=made.address, log_to_driver=False)
        return made

    yield start
    ray.shutdown()
    made.shutdown()
    left = leaked_since(before)
    assert not left, "left behind:\n  " + "\n  ".join(left)


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count

    def make(self, n: int) -> np.ndarray[Any, Any]:
        return np.arange(n)

    def total(self, array: np.ndarray[Any, Any]) -> int:
        return int(array.sum())


def on(resource: str, **options: Any) -> Any:
    return Counter.options(resources={resource: 0.1}, **options).remote()


def alive() -> int:
    return sum(node["Alive"] for node in ray.nodes())


def until_gone(count: int, limit: float = 20) -> float:
    """Waits until so many hosts are alive; how long that took."""
    began = time.monotonic()
    while alive() != count:
        assert time.monotonic() - began < limit, f"{alive()} hosts are alive, not {count}"
        time.sleep(0.02)
    return time.monotonic() - began


def test_what_runs_on_one_host_runs_on_hosts_that_share_nothing(cluster: Start) -> None:
    cluster(ONE, TWO, THREE)
    two, three = on("two"), on("three")
    array = two.make.remote(1_000_000)
    assert ray.get(three.total.remote(array)) == 499_999_500_000
    assert ray.get(array)[-1] == 999_999
    assert ray.get([two.add.remote() for _ in range(500)])[-1] == 500
    assert len({node["NodeManagerAddress"] for node in ray.nodes()}) == 3


def test_a_host_whose_cable_is_cut_is_missed_and_its_work_done_elsewhere(cluster: Start) -> None:
    made = cluster(ONE, TWO, {**TWO})
    actor = on("two", max_restarts=1, max_task_retries=1)
    doomed = on("two")

    assert ray.get([actor.add.remote(), doomed.add.remote()]) == [1, 1]
    # Both are packed on the first of the two.
    node = made.worker_nodes[0]
    node.network.cut()
    calls = [actor.add.remote() for _ in range(5)]
    last = doomed.add.remote()
    took = until_gone(2)
    assert took < 10
    assert ray.get(calls, timeout=60) == [1, 2, 3, 4, 5]
    with pytest.raises(ActorDiedError):
        ray.get(last, timeout=60)
    # It learns what has become of it, and ends.
    node.network.mend()
    assert node._launched.process.wait(60) == 1


@pytest.mark.parametrize("way", ["incoming", "outgoing"])
def test_silence_in_one_direction_is_silence(cluster: Start, way: str) -> None:
    made = cluster(ONE, TWO)
    actor = on("two")
    assert ray.get(actor.add.remote()) == 1
    (node,) = made.worker_nodes
    node.network.drop(incoming=way == "incoming", outgoing=way == "outgoing")
    call = actor.add.remote()
    assert until_gone(1) < 10
    with pytest.raises(ActorDiedError):
        ray.get(call, timeout=60)
    node.network.mend()
    assert node._launched.process.wait(60) == 1


def test_lost_packets_lose_nothing(cluster: Start) -> None:
    made = cluster(ONE, TWO, THREE)
    two, three = on("two"), on("three")
    ray.get([two.add.remote(), three.add.remote()])
    for node in made.worker_nodes:
        node.network.drop(share=0.05)
    counts = ray.get([two.add.remote() for _ in range(300)], timeout=120)
    assert counts == list(range(2, 302))
    assert ray.get(three.total.remote(two.make.remote(300_000)), timeout=120) == 44_999_850_000
    assert alive() == 3


def test_connections_that_are_reset_again_and_again_lose_nothing_and_double_nothing(
    cluster: Start,
) -> None:
    made = cluster(ONE, TWO)
    actor = on("two")
    ended = threading.Event()

    def trouble() -> None:
        (node,) = made.worker_nodes
        while not ended.wait(0.3):
            node.network.reset()
            time.sleep(0.05)
            node.network.mend()

    thread = threading.Thread(target=trouble)
    thread.start()
    try:
        counts: list[int] = []
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            counts += ray.get([actor.add.remote() for _ in range(50)], timeout=60)
        assert counts == list(range(1, len(counts) + 1))
        large = [ray.get(actor.make.remote(100_000), timeout=60) for _ in range(3)]
        assert all(array[-1] == 99_999 for array in large)
    finally:
        ended.set()
        thread.join()
    assert alive() == 2


def test_a_large_object_on_a_thin_line_does_not_hold_up_calls(cluster: Start) -> None:
    made = cluster(ONE, TWO)
    actor = on("two")
    large = actor.make.remote(2_500_000)  # 20 MB
    ray.wait([large], fetch_local=False)
    made.worker_nodes[0].network.throttle(40)
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.append(int(ray.get(large, timeout=120)[-1])))
    reader.start()
    slowest = 0.0
    while not got and reader.is_alive():
        began = time.monotonic()
        ray.get(actor.add.remote(), timeout=60)
        slowest = max(slowest, time.monotonic() - began)
    reader.join()
    assert got == [2_499_999]
    # The bytes alone take 4 s.
    assert slowest < 2.5
    assert alive() == 2


@pytest.mark.skipif(DELAYS, reason="this kernel has netem")
def test_a_kernel_that_cannot_delay_packets_is_told(cluster: Start) -> None:
    made = cluster(ONE)
    with pytest.raises(RuntimeError, match="the kernel needs netem"):
        made.head_node.network.delay(10)


@pytest.mark.skipif(not DELAYS, reason="this kernel has no netem")
@pytest.mark.parametrize(("way", "loss"), [(2, 0.0), (50, 0.01), (200, 0.01)])
def test_on_a_long_way_everything_takes_longer_and_nobody_is_missed(
    cluster: Start, tmp_path: Path, way: float, loss: float
) -> None:
    head = {**ONE, "port": 6391, "journal": str(tmp_path / "journal")}
    made = cluster(head, TWO)
    for node in made.list_all_nodes():
        node.network.delay(way, jitter=way / 10, loss=loss, reorder=loss, duplicate=loss)
    # Greets and joins over it.
    three = made.add_node(**THREE)
    three.network.delay(way, jitter=way / 10, loss=loss)
    one, two = on("two"), on("three")
    assert ray.get([one.add.remote(), two.add.remote()], timeout=120) == [1, 1]
    assert ray.get([two.add.remote() for _ in range(300)], timeout=120)[-1] == 301
    array = one.make.remote(60_000)
    assert ray.get(two.total.remote(array), timeout=120) == 1_799_970_000

    @ray.remote(num_cpus=1, resources={"three": 0.1}, max_retries=0)
    def double(n: int) -> int:
        return 2 * n

    assert ray.get([double.remote(n) for n in range(40)], timeout=120) == [2 * n for n in range(40)]
    ended = time.monotonic() + 8
    while time.monotonic() < ended:
        assert alive() == 3
        time.sleep(0.5)
    where = made.head_node.network
    made.remove_node(made.head_node, allow_graceful=False)
    made.add_node(**head, network=where)
    assert ray.get(on("two", name="after").add.remote(), timeout=120) == 1
    ended = time.monotonic() + 12
    while time.monotonic() < ended:
        assert alive() == 3
        time.sleep(0.5)
    # The dead are.
    made.remove_node(three, allow_graceful=False)
    with pytest.raises(ActorDiedError):
        ray.get(two.add.remote(), timeout=60)
    assert ray.get(one.add.remote(), timeout=60) == 2


def test_two_hosts_that_cannot_hear_each_other_do_not_both_stay(cluster: Start) -> None:
    made = cluster(ONE, TWO, THREE)
    two, three = on("two"), on("three")
    assert ray.get(three.total.remote(two.make.remote(50_000))) == 1_249_975_000
    earlier, later = made.worker_nodes
    later.network.drop(to=earlier.network.address)
    value = two.make.remote(50_000)
    ray.wait([value], fetch_local=False)
    with pytest.raises((ActorDiedError, ObjectLostError)):
        ray.get(three.total.remote(value), timeout=60)
    until_gone(2)
    with pytest.raises(ActorDiedError, match="the link between it and another host is cut"):
        ray.get(three.total.remote([]), timeout=60)
    # The one that has been there for longer.
    assert ray.get(two.add.remote(), timeout=60) == 1
    assert later._launched.process.wait(60) == 1


def test_power_loss_is_death_whatever_is_left_running(cluster: Start) -> None:
    made = cluster(ONE, TWO, THREE)

    @ray.remote(resources={"two": 0.1}, max_retries=0)
    def slow() -> None:
        time.sleep(600)

    @ray.remote(num_cpus=1, max_retries=3)
    def moves(seconds: float) -> int:
        time.sleep(seconds)
        return 7

    lost = slow.remote()
    moved = [moves.remote(1.0) for _ in range(5)]
    time.sleep(0.5)
    node = made.worker_nodes[0]
    node.network.drop()
    node.kill_all_processes()
    assert until_gone(2) < 10
    with pytest.raises(NodeDiedError):
        ray.get(lost, timeout=60)
    assert ray.get(moved, timeout=60) == [7] * 5


def test_a_head_that_is_cut_off_for_a_moment_is_waited_for(cluster: Start, tmp_path: Path) -> None:
    head = {**ONE, "port": 6390, "journal": str(tmp_path / "journal")}
    made = cluster(head, TWO)
    actor = on("two")
    assert ray.get(actor.add.remote()) == 1
    where = made.head_node.network
    where.drop()
    assert ray.get([actor.add.remote() for _ in range(100)], timeout=60)[-1] == 101
    os.kill(made.head_node.pid, signal.SIGKILL)
    made.remove_node(made.head_node, allow_graceful=False)
    time.sleep(1)
    where.mend()
    made.add_node(**head, network=where)
    assert alive() == 2
    named = on("two", name="after")
    assert ray.get(named.add.remote(), timeout=60) == 1
    assert ray.get(actor.add.remote(), timeout=60) == 102
