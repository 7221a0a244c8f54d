"""Rows about hosts that come, work together and die. Each body has a cluster of its own."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from compat_tests.bench.bodies import body
from compat_tests.bench.catalog import AGENT_MEMORY, HEAD_BACK, HOST_DEATH, TASKS_FAR
from compat_tests.bench.hosts import end_cluster
from compat_tests.bench.meter import Meter
from compat_tests.bench.pace import SETTLE_S
from compat_tests.bench.usage import memory_of
from compat_tests.harness.apart import free_port

ROOM = {"num_cpus": 1, "object_store_memory": 2 * 10**8}
ROUNDS = 3
HOSTS = 4


@contextlib.contextmanager
def hosts(count: int, head: dict[str, Any] | None = None, **options: Any) -> Iterator[Cluster]:
    """A head and so many further hosts, with this process as their driver."""
    end_cluster()
    made = Cluster(initialize_head=True, head_node_args={**ROOM, **(head or {})})
    for _ in range(count):
        made.add_node(**{**ROOM, **options})
    ray.init(address=made.address, log_to_driver=False)
    made.wait_for_nodes()
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@ray.remote
def nothing() -> bytes:
    return b"ok"


@body(TASKS_FAR)
def tasks_over_hosts(meter: Meter, row: str) -> None:
    with hosts(HOSTS - 1):
        ray.get([nothing.remote() for _ in range(20)])
        time.sleep(SETTLE_S)
        meter.rate(row, lambda: ray.get([nothing.remote() for _ in range(1000)]), 1000)


@ray.remote(resources={"place": 1}, max_retries=5)
def ends_elsewhere(folder: str) -> str:
    """Lasts where it begins first; the node's id."""
    me = str(ray.get_runtime_context().get_node_id())
    first = Path(folder, "first")
    if not first.exists():
        first.write_text(me)
        time.sleep(600)
    return me


@body(HOST_DEATH)
def death_to_result(meter: Meter, row: str) -> None:
    """From the kill of a host until the task that ran there has its result, on another."""
    with hosts(0) as made:
        numbered: dict[str, Any] = {}

        def add() -> None:
            mark = f"number {len(numbered)}"
            numbered[mark] = made.add_node(**ROOM, resources={"place": 1, mark: 1})
            made.wait_for_nodes()

        add()
        for _ in range(ROUNDS):
            add()
            with tempfile.TemporaryDirectory() as folder:
                result = ends_elsewhere.remote(folder)
                first = Path(folder, "first")
                while not (first.exists() and first.read_text()):
                    time.sleep(0.01)
                home = first.read_text()
                has = next(node["Resources"] for node in ray.nodes() if node["NodeID"] == home)
                node = next(node for mark, node in numbered.items() if mark in has)
                begin = time.perf_counter()
                made.remove_node(node, allow_graceful=False)
                assert ray.get(result) != home
                meter.report(row, (time.perf_counter() - begin) * 1e3)


class Answers:
    def answer(self) -> bytes:
        return b"ok"


@body(HEAD_BACK)
def head_restart(meter: Meter, row: str) -> None:
    """From the start of a new head until an actor that it has to place has answered."""
    if ray.__name__ != "raymesh":
        raise RuntimeError("a head of Ray comes back only with a Redis server")
    with tempfile.TemporaryDirectory() as folder:
        head = {**ROOM, "port": free_port(), "journal": folder}
        with hosts(1, head, resources={"other": 100}) as made:
            there = ray.remote(num_cpus=0, resources={"other": 1})(Answers)
            ray.get(there.remote().answer.remote())
            for _ in range(ROUNDS):
                made.remove_node(made.head_node, allow_graceful=False)
                waits = there.remote().answer.remote()
                begin = time.perf_counter()
                made.add_node(**head)
                ray.get(waits)
                meter.report(row, (time.perf_counter() - begin) * 1e3)


@body(AGENT_MEMORY)
def agent_memory(meter: Meter, row: str) -> None:
    """What a host costs that runs nothing: all its processes but workers."""
    with hosts(0) as made:
        time.sleep(SETTLE_S)
        for _ in range(ROUNDS):
            before = _of_clusters()
            node = made.add_node(**ROOM)
            made.wait_for_nodes()
            time.sleep(2 * SETTLE_S)
            own = [pid for pid in _of_clusters() - before if not _is_worker(pid)]
            meter.report(row, sum(memory_of(pid) for pid in own))
            made.remove_node(node)


def _of_clusters() -> set[int]:
    """All processes that may be of a cluster: those of Ray are nobody's children."""
    commands = {pid: _command(pid) for pid in psutil.pids()}
    return {
        pid for pid, command in commands.items() if b"ray" in command and b"rustc" not in command
    }


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _is_worker(pid: int) -> bool:
    return _command(pid).startswith((b"ray::IDLE", b"raymesh-worker"))
