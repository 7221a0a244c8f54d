"""Joining a cluster through any of its hosts, also while its head is away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raymesh as ray
from compat_tests.cluster.test_head import Head
from compat_tests.harness.discover import ROOT
from raymesh._launch import launch
from raymesh.cluster_utils import ClusterNode

Start = Callable[..., Any]


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path, resources={"head": 1}, patience=60)


def door(node: Any) -> str:
    """The join string that `raymesh start` has printed on that host."""
    return str(node._launched.join)


def cpus() -> float:
    return ray.cluster_resources()["CPU"]


def run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command on another machine, as far as what lies in folders goes."""
    inherited = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    env = {**inherited, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(folder), **environment}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, check=False, env=env
    )


@ray.remote(resources={"head": 0.1})
def at_head() -> str:
    return "there"


def test_programs_and_hosts_join_through_any_host(cluster: Start) -> None:
    made = cluster({"num_cpus": 1, "resources": {"head": 1}}, {"num_cpus": 2}, connect=False)
    second = made.worker_nodes[0]
    assert door(second) != made.address
    ray.init(address=door(second), log_to_driver=False)
    assert cpus() == 3
    assert ray.get(at_head.remote()) == "there"
    # One that has come through another is as good a door, and large things go where they should.
    third = ClusterNode(launch(join=door(second), num_cpus=4, resources={"third": 1}), head=False)
    made.worker_nodes.append(third)
    fourth = ClusterNode(launch(join=door(third), num_cpus=8), head=False)
    made.worker_nodes.append(fourth)
    assert cpus() == 15

    @ray.remote(resources={"third": 1})
    def size(data: bytes) -> int:
        return len(data)

    assert ray.get(size.remote(bytes(3_000_000))) == 3_000_000
    ray.shutdown()
    # The head is a door like the others.
    ray.init(address=made.address, log_to_driver=False)
    assert cpus() == 15


def test_a_door_is_known_by_its_address_on_its_own_machine(cluster: Start) -> None:
    made = cluster({"num_cpus": 1, "resources": {"head": 1}}, {"num_cpus": 2}, connect=False)
    for address in (made.worker_nodes[0].address, made.head_node.address):
        ray.init(address=address, log_to_driver=False)
        assert cpus() == 3
        ray.shutdown()


def test_a_machine_that_has_only_a_member_is_in_its_cluster(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    command = ["-m", "raymesh"]
    program = "import raymesh as ray; ray.init({}); print(ray.cluster_resources()['CPU'])"
    try:
        started = run([*command, "start", "--head", "--num-cpus", "1"], there)
        assert started.returncode == 0, started.stderr
        string = started.stdout.split('ray.init(address="')[1].partition('"')[0]
        joined = run([*command, "start", "--address", string, "--num-cpus", "2"], here)
        assert joined.returncode == 0, joined.stderr
        assert "through it with" in joined.stdout
        own = joined.stdout.split('ray.init(address="')[1].partition('"')[0]
        assert own != string
        for argument, folder in [
            ("", here),
            ("'auto'", here),
            (repr(own), there),
            # As the machine's user knows the cluster: the head's address, without the secret.
            (repr(string.partition("/")[0]), here),
        ]:
            done = run(["-c", program.format(argument)], folder)
            assert done.stdout.strip() == "3.0", (argument, done.stderr)
        shown = run([*command, "status"], here)
        assert shown.returncode == 0, shown.stderr
        third = run([*command, "start", "--address", "auto", "--num-cpus", "4"], here)
        assert third.returncode == 0, third.stderr
        done = run(["-c", program.format("")], here)
        assert done.stdout.strip() == "7.0", done.stderr
    finally:
        run([*command, "stop"], here)
        run([*command, "stop"], there)


def test_whoever_comes_while_the_head_is_away_waits_for_it(cluster: Start, head: Head) -> None:
    made = cluster(head.options, {"num_cpus": 2}, connect=False)
    string = door(made.worker_nodes[0])
    head.kill(made)
    come: list[Any] = []
    coming = threading.Thread(target=lambda: come.append(launch(join=string, num_cpus=4)))
    coming.start()
    coming.join(2.5)
    assert coming.is_alive(), "nobody is let in without a head"
    head.again(made)
    # Whoever comes while it comes back is let in as well.
    ray.init(address=string, log_to_driver=False)
    coming.join(60)
    assert not coming.is_alive()
    made.worker_nodes.append(ClusterNode(come[0], head=False))
    assert ray.get(at_head.remote()) == "there"
    assert cpus() == 7


def test_a_cluster_that_gives_its_head_up_says_so_to_who_waits(
    cluster: Start, tmp_path: Path
) -> None:
    short = Head(tmp_path, patience=4)
    made = cluster(short.options, {"num_cpus": 2}, connect=False)
    string = door(made.worker_nodes[0])
    short.kill(made)
    with pytest.raises(ConnectionError):
        ray.init(address=string)
    assert not ray.is_initialized()


def test_ctrl_c_ends_the_wait_for_a_head(cluster: Start, head: Head) -> None:
    made = cluster(head.options, {"num_cpus": 2}, connect=False)
    string = door(made.worker_nodes[0])
    head.kill(made)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ray.init(address=string)
    timer.join()
    assert not ray.is_initialized()
    head.again(made)
    ray.init(address=string, log_to_driver=False)
    assert cpus() == 3


def test_a_string_is_for_the_host_that_has_printed_it(cluster: Start) -> None:
    made = cluster({"num_cpus": 1}, {"num_cpus": 2}, connect=False)
    place = made.worker_nodes[0].address
    secret = made.address.partition("/")[2]
    with pytest.raises(ConnectionError, match="a string is for the host that has printed it"):
        ray.init(address=f"{place}/{secret}")
    token = "A" * 43
    fingerprint = door(made.worker_nodes[0]).rpartition(".")[2]
    with pytest.raises(ConnectionError, match="token is not this cluster's"):
        ray.init(address=f"{place}/{token}.{fingerprint}")
