"""Hosts that are asked to leave: `raymesh drain`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raymesh as ray
from compat_tests.cluster.steps import raymesh, until
from raymesh.util.placement_group import placement_group, placement_group_table
from raymesh.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

Start = Callable[..., Any]

HEAD = {"num_cpus": 2, "node_name": "head"}
OTHER = {"num_cpus": 2, "resources": {"other": 10}, "node_name": "other"}


@ray.remote(num_cpus=1, max_restarts=1, max_task_retries=-1)
class Restartable:
    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def pid(self) -> int:
        return os.getpid()


def stay(gate: Path) -> None:
    """Until the other end of that FIFO is opened, which waits for this, and closed."""
    gate.read_bytes()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


@ray.remote
def nap(seconds: float) -> str:
    time.sleep(seconds)
    return "rested"


def drain(address: str, node: str, *options: str) -> subprocess.CompletedProcess[str]:
    return raymesh("drain", "--address", address, node, *options)


def alive() -> int:
    return sum(node["Alive"] for node in ray.nodes())


def node_ids() -> dict[str, str]:
    """By name, once both hosts are there."""
    until(lambda: alive() == 2)
    return {node["NodeName"]: node["NodeID"] for node in ray.nodes()}


def test_drained_host_lets_its_task_end_and_goes(cluster: Start) -> None:
    started = cluster(HEAD, OTHER)
    running = nap.options(resources={"other": 1}).remote(2)
    until(lambda: ray.available_resources().get("other") == 9)
    done = drain(started.address, "other", "--reason", "maintenance")
    assert done.returncode == 0, done.stderr
    assert alive() == 2
    assert ray.get(running, timeout=30) == "rested"
    until(lambda: alive() == 1)
    assert ray.get(nap.remote(0), timeout=30) == "rested"


def test_drained_actor_goes_on_elsewhere(cluster: Start) -> None:
    started = cluster(HEAD, OTHER)
    nodes = node_ids()
    there = NodeAffinitySchedulingStrategy(nodes["other"], soft=True)
    actor = Restartable.options(scheduling_strategy=there).remote()
    assert ray.get(actor.node.remote(), timeout=30) == nodes["other"]
    assert drain(started.address, nodes["other"], "--deadline", "20").returncode == 0
    until(lambda: alive() == 1)
    assert ray.get(actor.node.remote(), timeout=30) == nodes["head"]
    # That has cost it nothing: its one restart is left.
    os.kill(ray.get(actor.pid.remote(), timeout=30), signal.SIGKILL)
    assert ray.get(actor.node.remote(), timeout=30) == nodes["head"]


def test_actors_that_are_called_all_the_time_move_and_no_call_is_lost(cluster: Start) -> None:
    started = cluster(HEAD, OTHER)
    nodes = node_ids()
    there = NodeAffinitySchedulingStrategy(nodes["other"], soft=True)
    actors = [Restartable.options(scheduling_strategy=there).remote() for _ in range(2)]
    assert ray.get([actor.node.remote() for actor in actors], timeout=30) == [nodes["other"]] * 2
    stop = threading.Event()
    heard: list[list[str]] = [[] for _ in actors]

    def call(nth: int) -> None:
        while not stop.is_set():
            calls = [actors[nth].node.remote() for _ in range(20)]
            heard[nth] += ray.get(calls, timeout=60)

    callers = [threading.Thread(target=call, args=[nth]) for nth in range(2)]
    for caller in callers:
        caller.start()
    # Without a deadline: they need not be told to.
    assert drain(started.address, "other").returncode == 0
    until(lambda: alive() == 1)
    until(lambda: all(nodes["head"] in of_one for of_one in heard))
    stop.set()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    for of_one in heard:
        moved = of_one.index(nodes["head"])
        assert set(of_one[:moved]) <= {nodes["other"]}
        assert set(of_one[moved:]) == {nodes["head"]}, "no call comes after one that was made later"


def test_an_actor_finishes_what_runs_before_it_moves(cluster: Start, gate: Path) -> None:
    started = cluster(HEAD, OTHER)
    nodes = node_ids()
    there = NodeAffinitySchedulingStrategy(nodes["other"], soft=True)

    @ray.remote(num_cpus=1, max_restarts=1)
    class Busy:
        def node(self) -> str:
            return str(ray.get_runtime_context().get_node_id())

        def work(self, gate: Path) -> str:
            stay(gate)
            # As long as the word to the actor may be under way.
            time.sleep(0.5)
            return self.node()

    actor = Busy.options(scheduling_strategy=there).remote()
    assert ray.get(actor.node.remote(), timeout=30) == nodes["other"]
    running, behind = actor.work.remote(gate), actor.node.remote()
    with gate.open("wb"):
        assert drain(started.address, "other").returncode == 0
    # Neither may run twice.
    assert ray.get(running, timeout=30) == nodes["other"]
    assert ray.get(behind, timeout=30) == nodes["head"]


def test_an_actor_without_a_place_elsewhere_lives_on_until_there_is_one(
    cluster: Start, gate: Path
) -> None:
    started = cluster(HEAD, OTHER)
    nodes = node_ids()
    there = NodeAffinitySchedulingStrategy(nodes["other"], soft=True)
    actor = Restartable.options(scheduling_strategy=there).remote()
    assert ray.get(actor.node.remote(), timeout=30) == nodes["other"]
    on_head = NodeAffinitySchedulingStrategy(nodes["head"], soft=False)
    in_the_way = ray.remote(num_cpus=2, scheduling_strategy=on_head)(stay).remote(gate)
    with gate.open("wb"):
        assert drain(started.address, "other").returncode == 0
        assert ray.get(actor.node.remote(), timeout=30) == nodes["other"]
    ray.get(in_the_way, timeout=30)
    until(lambda: alive() == 1)
    assert ray.get(actor.node.remote(), timeout=30) == nodes["head"]


def test_a_group_moves_with_what_is_in_it(cluster: Start) -> None:
    started = cluster(HEAD, OTHER, {"num_cpus": 2, "node_name": "third"})
    until(lambda: alive() == 3)
    nodes = {node["NodeName"]: node["NodeID"] for node in ray.nodes()}
    everywhere = placement_group([{"CPU": 1}, {"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    assert everywhere.wait(30)
    index = placement_group_table(everywhere)["bundles_to_node_id"]
    at = next(at for at, node in index.items() if node == nodes["third"])
    inside = PlacementGroupSchedulingStrategy(everywhere, int(at))
    actor = Restartable.options(scheduling_strategy=inside).remote()
    assert ray.get(actor.node.remote(), timeout=30) == nodes["third"]
    # No third host is left for it to go to: it stays.
    assert drain(started.address, "third").returncode == 0
    time.sleep(0.5)
    assert ray.get(actor.node.remote(), timeout=30) == nodes["third"]
    started.add_node(num_cpus=2, node_name="fourth")
    until(lambda: {node["NodeName"] for node in ray.nodes() if node["Alive"]} >= {"fourth"})
    nodes = {node["NodeName"]: node["NodeID"] for node in ray.nodes()}
    until(lambda: not any(n["Alive"] and n["NodeName"] == "third" for n in ray.nodes()))
    assert ray.get(actor.node.remote(), timeout=30) == nodes["fourth"]
    assert placement_group_table(everywhere)["state"] == "CREATED"


def test_at_the_deadline_a_task_moves(cluster: Start) -> None:
    started = cluster(HEAD, OTHER)
    nodes = node_ids()
    there = NodeAffinitySchedulingStrategy(nodes["other"], soft=True)

    @ray.remote(max_retries=1)
    def stay_if(node: str) -> str:
        here = str(ray.get_runtime_context().get_node_id())
        time.sleep(600 if here == node else 0)
        return here

    running = stay_if.options(scheduling_strategy=there).remote(nodes["other"])
    until(lambda: ray.available_resources().get("CPU") == 3)
    assert (
        drain(started.address, "other", "--deadline", "2", "--reason", "preempted").returncode == 0
    )
    shown = subprocess.run(
        [sys.executable, "-m", "raymesh", "status", "--address", started.address],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "preempted" in shown.stdout
    assert ray.get(running, timeout=30) == nodes["head"]
    until(lambda: alive() == 1)


def test_who_cannot_leave_is_told_why(cluster: Start) -> None:
    started = cluster(HEAD)
    done = drain(started.address, "head")
    assert done.returncode != 0
    assert "the head cannot leave" in done.stderr
    done = drain(started.address, "nobody")
    assert "no host is called nobody" in done.stderr
