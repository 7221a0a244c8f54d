"""Where things run on several hosts: placement groups, strategies, labels. Both systems have `Cluster`."""

from __future__ import annotations

import contextlib
import time

import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import (
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as InGroup

from compat_tests.harness import apart
from compat_tests.harness.case import MB, Record, case, main

apart.own_folder()


@ray.remote
def node(seconds=0.0):
    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id()


@ray.remote
class Actor:
    def node(self):
        return ray.get_runtime_context().get_node_id()


@ray.remote
def make(size):
    return bytes(size)


@ray.remote
def where(_, seconds=0.0):
    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id()


@contextlib.contextmanager
def hosts(*options, store=100 * MB):
    """A cluster of a head and hosts like these, and a program in it."""
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 100 * MB}
    )
    try:
        added = [cluster.add_node(object_store_memory=store, **option) for option in options]
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        yield cluster, added
    finally:
        ray.shutdown()
        cluster.shutdown()


def places(group):
    return list(placement_group_table(group)["bundles_to_node_id"].values())


def settled(wanted, seconds=30.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if wanted():
            return True
        time.sleep(0.05)
    return False


@case(own_session=True, timeout_s=180)
def groups_on_three_hosts(record: Record) -> None:
    with hosts({"num_cpus": 2}, {"num_cpus": 2}):
        for strategy, bundles in [
            ("STRICT_SPREAD", 3),
            ("SPREAD", 3),
            ("STRICT_PACK", 2),
            ("PACK", 2),
        ]:
            group = placement_group([{"CPU": 1}] * bundles, strategy=strategy)
            record(strategy, (group.wait(20), len(set(places(group)))))
            ran = [
                node.options(scheduling_strategy=InGroup(group, index)).remote()
                for index in range(bundles)
            ]
            record("tasks run in their bundles", ray.get(ran) == places(group))
            remove_placement_group(group)
            settled(lambda: ray.available_resources().get("CPU") == 6)
        group = placement_group([{"CPU": 1}] * 4, strategy="STRICT_SPREAD")
        record("four on three hosts", group.wait(0.5))
        remove_placement_group(group)
        group = placement_group([{"CPU": 3}], strategy="PACK")
        record("too large for one", group.wait(0.5))


@case(own_session=True, timeout_s=180)
def a_lost_host_and_a_new_one(record: Record) -> None:
    with hosts({"num_cpus": 2}) as (cluster, added):
        group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
        record("placed", group.wait(20))
        here = ray.get_runtime_context().get_node_id()
        before = places(group)
        head = next(
            it["NodeID"] for it in ray.nodes() if "node:__internal_head__" in it["Resources"]
        )
        record("two hosts", len({*before, head}))
        lost = next(index for index, it in enumerate(before) if it != head)
        place = InGroup(group, lost)
        actor = Actor.options(
            max_restarts=1, max_task_retries=3, scheduling_strategy=place
        ).remote()
        record("actor", ray.get(actor.node.remote()) == before[lost])
        cluster.remove_node(added[0])
        state = lambda: placement_group_table(group)["state"]  # noqa: E731
        record("its bundle waits", settled(lambda: state() == "RESCHEDULING"))
        cluster.add_node(num_cpus=2, object_store_memory=100 * MB)
        record("and is placed again", settled(lambda: state() == "CREATED"))
        after = places(group)
        record("elsewhere", (after[1 - lost] == before[1 - lost], after[lost] == before[lost]))
        record("with its actor", ray.get(actor.node.remote(), timeout=60) == after[lost])
        record(
            "and its tasks",
            ray.get(node.options(scheduling_strategy=place).remote()) == after[lost],
        )
        del here


@case(own_session=True, timeout_s=180)
def strategies_and_labels(record: Record) -> None:
    labels = [{"zone": "a"}, {"zone": "b", "disk": "fast"}]
    with hosts(*({"num_cpus": 2, "labels": each} for each in labels)):
        by_zone = {it["Labels"].get("zone", ""): it["NodeID"] for it in ray.nodes() if it["Alive"]}
        record("labels", sorted(by_zone))

        def zone(**options):
            ran = ray.get(node.options(**options).remote(), timeout=30)
            return next((name for name, it in by_zone.items() if it == ran), None)

        for name, node_id in sorted(by_zone.items()):
            here = NodeAffinitySchedulingStrategy(node_id, soft=False)
            record(f"on {name!r}", zone(scheduling_strategy=here) == name)
        record("selector", zone(label_selector={"zone": "b"}))
        record("in", zone(label_selector={"zone": "in(b,c)"}))
        record("not", zone(label_selector={"zone": "!in(a)", "disk": "fast"}))
        other = [{"label_selector": {"zone": "a"}}]
        record("else", zone(label_selector={"zone": "x"}, fallback_strategy=other))
        by_label = NodeLabelSchedulingStrategy({"zone": In("a")})
        record("strategy", zone(scheduling_strategy=by_label))
        actor = Actor.options(label_selector={"zone": "a"}).remote()
        record("actor", ray.get(actor.node.remote()) == by_zone["a"])
        group = placement_group(
            [{"CPU": 1}] * 2, bundle_label_selector=[{"zone": "b"}, {"zone": "a"}]
        )
        record("bundles", (group.wait(20), places(group) == [by_zone["b"], by_zone["a"]]))
        remove_placement_group(group)
        # As long as a worker needs to start: each finds the others at work.
        spread = [node.options(scheduling_strategy="SPREAD").remote(2) for _ in range(3)]
        # Ray's raylets do not always agree on three.
        record("spread", len(set(ray.get(spread))) > 1)
        actors = [
            Actor.options(num_cpus=1, scheduling_strategy="SPREAD").remote() for _ in range(3)
        ]
        record("spread actors", len(set(ray.get([it.node.remote() for it in actors]))) > 1)


@case(own_session=True, timeout_s=180)
def tasks_run_where_their_large_arguments_lie(record: Record) -> None:
    tags = ["a", "b", "c"]
    with hosts(*({"num_cpus": 4, "resources": {tag: 10}} for tag in tags), store=300 * MB):
        objects = [make.options(num_cpus=0, resources={tag: 1}).remote(80 * MB) for tag in tags]
        homes = ray.get(
            [node.options(num_cpus=0, resources={tag: 1}).remote() for tag in tags], timeout=60
        )
        ray.wait(objects, num_returns=3, timeout=60, fetch_local=False)
        ran = ray.get([where.remote(it) for it in objects], timeout=60)
        record("each at home", ran == homes)
        # More than half of what the host has: large arguments count more than its load.
        ran = ray.get([where.remote(objects[1], 0.5) for _ in range(3)], timeout=60)
        record("several", ran == [homes[1]] * 3)
        full = Actor.options(num_cpus=4, resources={"c": 1}).remote()
        ray.get(full.node.remote(), timeout=60)
        record("full", ray.get(where.remote(objects[2]), timeout=60) != homes[2])


main(globals())
