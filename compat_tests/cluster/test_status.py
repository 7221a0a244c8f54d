"""`raymesh status`, and what `nodes()` says of hosts that come, leave and die."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import raymesh as ray
from compat_tests.cluster.steps import raymesh, until

Start = Callable[..., Any]


def status(address: str, *options: str) -> str:
    done = raymesh("status", "--address", address, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(address: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(status(address, "--json"))
    return found


def test_hosts_are_shown_with_what_is_used_of_them(cluster: Start) -> None:
    made = cluster(
        {"num_cpus": 2, "node_name": "first"},
        {"num_cpus": 3, "node_name": "second", "resources": {"disk": 4}, "labels": {"zone": "a"}},
    )

    @ray.remote(num_cpus=1, resources={"disk": 1.5})
    class Uses:
        def here(self) -> None:
            pass

    actor = Uses.remote()
    ray.get(actor.here.remote())
    found = report(made.address)
    first, second = found["hosts"]
    assert (first["name"], first["state"], first["labels"]) == ("first", "alive", {})
    assert (second["name"], second["labels"]) == ("second", {"zone": "a"})
    assert second["resources"]["disk"] == {"used": 1.5, "total": 4}
    assert second["resources"]["CPU"] == {"used": 1, "total": 3}
    assert second["address"] == "127.0.0.1"
    shown = status(made.address, "--verbose")
    nodes = {node["NodeName"]: node["NodeID"] for node in ray.nodes()}
    for text in ("first", "second", "1.5 of 4 disk", "zone=a", *nodes.values()):
        assert text in shown, shown
    assert "Nothing waits for a place." in shown


def test_what_waits_is_shown_with_how_many_and_why(cluster: Start) -> None:
    made = cluster({"num_cpus": 2, "node_name": "first"})

    @ray.remote(num_cpus=2)
    class Holds:
        def here(self) -> None:
            pass

    holder = Holds.remote()
    ray.get(holder.here.remote())

    @ray.remote
    def task() -> None:
        pass

    busy = [task.remote() for _ in range(1000)]
    never = [task.options(resources={"moon": 1}).remote() for _ in range(3)]
    actor = Holds.options(resources={"moon": 2}).remote()
    group = ray.util.placement_group([{"CPU": 9}] * 2, strategy="STRICT_SPREAD")

    def all_wait() -> Any:
        found = report(made.address)
        return len(found["waiting"]) == 3 and found["placement_groups"] and found

    found = until(all_wait, "the report of three demands and a group")
    by_shape = {tuple(sorted(it["resources"])): it for it in found["waiting"]}
    # The program is none of the hosts: what it waits for is shown all the same.
    waits = by_shape[("CPU",)]
    # A program tells of its tasks when they have doubled.
    assert 500 <= waits["tasks"] <= 1000
    assert not waits["never"]
    assert "held by" in waits["why"]
    kinds = [(it["tasks"], it["actors"], it["never"]) for it in found["waiting"]]
    assert sorted(kinds) == [(0, 1, True), (3, 0, True), (waits["tasks"], 0, False)]
    assert found["placement_groups"][0]["count"] == 1
    assert found["placement_groups"][0]["never"]
    shown = status(made.address)
    for text in (
        " tasks, {CPU: 1} each",
        "3 tasks, {CPU: 1, moon: 1} each",
        "1 actor, {CPU: 2, moon: 2} each",
        "no host has that much",
        "1 of STRICT_SPREAD 2 x {CPU: 9}",
    ):
        assert text in shown, shown
    assert shown.count(" tasks, {CPU: 1} each") == 1
    ray.util.remove_placement_group(group)
    ray.kill(holder)
    ray.get(busy, timeout=60)
    del never, actor


def test_programs_are_shown_and_the_one_that_asks_is_not(cluster: Start) -> None:
    made = cluster({"num_cpus": 1}, {"num_cpus": 1})
    (program,) = report(made.address)["programs"]
    assert program["pid"] == os.getpid()
    assert program["job_id"] == ray.get_runtime_context().get_job_id()
    assert f"pid {os.getpid()}" in status(made.address)
    # Through another host it is the same cluster.
    assert report(made.worker_nodes[0]._launched.join)["programs"] == [program]


def _node(name: str) -> dict[str, Any]:
    (node,) = [node for node in ray.nodes() if node["NodeName"] == name]
    return node


def test_a_new_host_is_in_nodes_when_it_was_added(cluster: Start) -> None:
    made = cluster({"num_cpus": 1})
    for count in range(2, 6):
        made.add_node(num_cpus=1)
        assert len(ray.nodes()) == count
        assert ray.cluster_resources()["CPU"] == count


def test_how_a_host_ended_is_told_as_ray_does(cluster: Start) -> None:
    hosts = [{"num_cpus": 1, "node_name": name} for name in ("head", "ended", "killed", "drained")]
    made = cluster(*hosts)
    ended, killed, drained = made.worker_nodes
    from raymesh import _native

    @ray.remote(num_cpus=1)
    class Stays:
        def here(self) -> None:
            pass

    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        node_id=_node("drained")["NodeID"], soft=False
    )
    stays = Stays.options(scheduling_strategy=affinity).remote()
    ray.get(stays.here.remote())
    assert _native.drain_host(bytes.fromhex(_node("drained")["NodeID"]), "spot", 3.0) is None
    node = _node("drained")
    # As Ray: one that drains is alive, with all it has.
    assert (node["Alive"], node["DeathReason"], node["DeathReasonMessage"]) == (True, 0, "")
    assert node["Resources"]["CPU"] == 1
    assert "leaves in" in status(made.address)
    made.remove_node(ended)
    made.remove_node(killed, allow_graceful=False)
    until(
        lambda: not any(_node(name)["Alive"] for name in ("ended", "killed", "drained")),
        "their death",
    )
    drained._launched.process.wait()
    made.remove_node(drained)
    seen = {name: _node(name) for name in ("ended", "killed", "drained")}
    assert {name: node["DeathReason"] for name, node in seen.items()} == {
        "ended": 1,  # EXPECTED_TERMINATION
        "killed": 2,  # UNEXPECTED_TERMINATION
        "drained": 3,  # AUTOSCALER_DRAIN_PREEMPTED
    }
    assert seen["killed"]["DeathReasonMessage"] == "its process has ended"
    assert seen["drained"]["DeathReasonMessage"] == "spot"
    assert all(node["Resources"] == {} for node in seen.values())
    assert "dead (spot)" in status(made.address)
