"""Who loses work, an actor or an object with a host is told which host, and why it is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raymesh as ray
from compat_tests.cluster.steps import raymesh
from raymesh.exceptions import (
    ActorDiedError,
    NodeDiedError,
    ObjectReconstructionFailedError,
    OwnerDiedError,
)

Start = Callable[..., Any]

HEAD = {"num_cpus": 1, "node_name": "one"}
OTHER = {"num_cpus": 4, "resources": {"two": 9}, "node_name": "two", "labels": {"a": "b"}}


@ray.remote(num_cpus=0, resources={"two": 1})
class Actor:
    def sit(self) -> None:
        signal.pause()

    def put(self) -> list[Any]:
        return [ray.put("of the actor")]


@ray.remote(num_cpus=0, resources={"two": 1}, max_retries=0)
def sit() -> None:
    signal.pause()


@ray.remote(num_cpus=0, resources={"two": 1}, max_retries=0)
def large() -> Any:
    return np.ones(1 << 20)


def of_other(made: Any) -> str:
    """What has to be said of the other host."""
    made.wait_for_nodes()
    [node] = [node for node in ray.nodes() if node["NodeName"] == "two"]
    return f"two (node IP: {node['NodeManagerAddress']}, node ID: {node['NodeID']}), "


def told(actor: Any) -> str:
    """What a call says to an actor that is gone."""
    with pytest.raises(ActorDiedError) as failed:
        ray.get(actor.sit.remote(), timeout=60)
    return str(failed.value)


def test_a_killed_host_is_named(cluster: Start) -> None:
    made = cluster(HEAD, OTHER)
    which = of_other(made) + "its process has ended"
    actor, task, array = Actor.remote(), sit.remote(), large.remote()
    [small] = ray.get(actor.put.remote())
    ray.wait([array])
    made.remove_node(made.worker_nodes[0], allow_graceful=False)
    with pytest.raises(NodeDiedError) as failed:
        ray.get(task, timeout=60)
    assert which in str(failed.value)
    assert which in told(actor)
    with pytest.raises(ObjectReconstructionFailedError) as lost:
        ray.get(array, timeout=60)
    assert which in str(lost.value)
    with pytest.raises(OwnerDiedError) as owner:
        ray.get(small, timeout=60)
    assert which in str(owner.value)


def test_a_silent_host_is_named(cluster: Start) -> None:
    made = cluster(HEAD, OTHER)
    which = of_other(made) + "nothing was heard of it for 2."
    actor, task = Actor.remote(), sit.remote()
    ray.get(actor.put.remote())
    os.kill(made.worker_nodes[0].pid, signal.SIGSTOP)
    try:
        with pytest.raises(NodeDiedError) as failed:
            ray.get(task, timeout=60)
        assert which in str(failed.value)
        assert which in told(actor)
    finally:
        os.kill(made.worker_nodes[0].pid, signal.SIGCONT)


def test_a_host_that_was_shut_down_is_named(cluster: Start) -> None:
    made = cluster(HEAD, OTHER)
    which = of_other(made) + "it was shut down"
    actor = Actor.remote()
    ray.get(actor.put.remote())
    made.remove_node(made.worker_nodes[0])
    assert which in told(actor)


def test_a_drained_host_is_named(cluster: Start) -> None:
    made = cluster(HEAD, OTHER)
    which = of_other(made) + "it was drained: a new kernel"
    actor = Actor.remote()
    ray.get(actor.put.remote())
    node = ray.nodes()[1]["NodeID"]
    words = [node, "--reason", "a new kernel", "--deadline", "0"]
    done = raymesh("drain", "--address", made.address, *words)
    assert done.returncode == 0, done.stderr
    assert which in told(actor)
