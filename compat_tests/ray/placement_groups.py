"""Placement groups on one host: made, awaited, used, shown, removed."""

from __future__ import annotations

import os
import pickle
import time

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as InGroup

from compat_tests.harness.case import Record, case, main, raised

INIT = {
    "num_cpus": 4,
    "num_gpus": 2,
    "resources": {"a": 2},
    "include_dashboard": False,
    "log_to_driver": False,
    "object_store_memory": 200 * 1024 * 1024,
}


@ray.remote
def where():
    context = ray.get_runtime_context()
    group = get_current_placement_group()
    mine = context.get_placement_group_id()
    return (
        group is not None and group.id.hex() == mine,
        mine is None,
        context.should_capture_child_tasks_in_placement_group,
        sorted(context.get_assigned_resources().items()),
    )


@ray.remote(num_cpus=0)
def group_of_child():
    return get_current_placement_group() is not None


@ray.remote
def group_of_my_child():
    return ray.get(group_of_child.remote())


@ray.remote
def nap(seconds=100):
    time.sleep(seconds)
    return "rested"


@ray.remote
class Member:
    def pid(self):
        return os.getpid()

    def place(self):
        return get_current_placement_group() is not None

    def gpus(self):
        return sorted(ray.get_gpu_ids())

    def nap(self):
        time.sleep(100)


def plain(ask, group):
    """Resources without the id of the group, and without what differs between hosts.

    On Ray what a group holds shows up later than the group is ready.
    """
    settled(lambda: any(group.id.hex() in name for name in ask()))
    resources = ask()
    group_id = group.id.hex()
    named = {name.replace(group_id, "ID"): amount for name, amount in resources.items()}
    return sorted(
        item for item in named.items() if item[0].split("_")[0] in ("CPU", "GPU", "a", "bundle")
    )


def settled(wanted, seconds=10.0):
    """Whether that comes true in time: resources are free a little later than their users end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if wanted():
            return True
        time.sleep(0.02)
    return False


@case
def made_and_shown(record: Record) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1, "a": 1}], name="shown")
    ready = ray.get(group.ready())
    record("ready", (type(ready).__name__, ready == group, ready is group))
    record("wait", group.wait(5))
    record("bundles", (group.bundle_specs, group.bundle_count, group.is_empty))
    record("id", (type(group.id).__name__, len(group.id.binary()), len(group.id.hex())))
    table = placement_group_table(group)
    record("keys", (list(table), list(table["stats"])))
    record("entry", [table[key] for key in ("name", "strategy", "state")])
    record("bundles shown", sorted((at, sorted(it.items())) for at, it in table["bundles"].items()))
    me = ray.get_runtime_context().get_node_id()
    record("nodes", [node == me for node in table["bundles_to_node_id"].values()])
    record("in the whole table", placement_group_table()[group.id.hex()]["state"])
    record("total", plain(ray.cluster_resources, group))
    record("free", plain(ray.available_resources, group))
    found = get_placement_group("shown")
    record("found", (found == group, hash(found) == hash(group), found.bundle_count))
    again = pickle.loads(pickle.dumps(group))
    record("pickled", (again == group, again.bundle_specs))
    remove_placement_group(group)
    record("gone", settled(lambda: placement_group_table(group)["state"] == "REMOVED"))
    record("name is free", raised(lambda: get_placement_group("shown")))
    record("removed twice", remove_placement_group(group))
    record("all is free", settled(lambda: ray.available_resources().get("CPU") == 4))


@case
def used_by_tasks(record: Record) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    record("one", ray.get(where.options(scheduling_strategy=InGroup(group, 0)).remote()))
    record("any", ray.get(where.options(scheduling_strategy=InGroup(group)).remote()))
    record("outside", ray.get(where.remote()))
    plain_parent = group_of_my_child.options(scheduling_strategy=InGroup(group, 0))
    record("not captured", ray.get(plain_parent.remote()))
    captures = InGroup(group, 0, placement_group_capture_child_tasks=True)
    parent = group_of_my_child.options(scheduling_strategy=captures)
    record("captured", ray.get(parent.remote()))
    old = where.options(placement_group=group, placement_group_bundle_index=1)
    record("old options", ray.get(old.remote()))
    record("no group", ray.get(where.options(scheduling_strategy=InGroup(None)).remote()))
    record("none", ray.get(where.options(placement_group=None).remote()))
    record("in the driver", get_current_placement_group())
    several = [where.options(scheduling_strategy=InGroup(group)).remote() for _ in range(20)]
    record("many", all(it[0] for it in ray.get(several)))
    remove_placement_group(group)


@case
def used_by_actors(record: Record) -> None:
    group = placement_group([{"CPU": 1, "GPU": 1}, {"CPU": 1}])
    first = Member.options(num_gpus=1, scheduling_strategy=InGroup(group, 0)).remote()
    second = Member.options(scheduling_strategy=InGroup(group, 1)).remote()
    record("places", ray.get([first.place.remote(), second.place.remote()]))
    record("gpu", len(ray.get(first.gpus.remote())))
    record("free", plain(ray.available_resources, group))
    ray.kill(first)
    ray.kill(second)
    remove_placement_group(group)


@case
def removed_while_in_use(record: Record) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    actor = Member.options(scheduling_strategy=InGroup(group, 1)).remote()
    ray.get(actor.pid.remote())
    call = actor.nap.remote()
    place = InGroup(group, 0)
    running = nap.options(max_retries=0, scheduling_strategy=place).remote()
    time.sleep(1)
    waiting = nap.options(max_retries=0, scheduling_strategy=place).remote()
    time.sleep(0.5)
    remove_placement_group(group)
    with record.raises("a running task"):
        ray.get(running, timeout=30)
    with record.raises("a waiting task"):
        ray.get(waiting, timeout=30)
    with record.raises("a running call", says=["placement group"]):
        ray.get(call, timeout=30)
    with record.raises("a later call", says=["placement group"]):
        ray.get(actor.pid.remote(), timeout=30)
    with record.raises("ready"):
        ray.get(group.ready(), timeout=30)
    with record.raises("wait", says=["does not exist"]):
        group.wait(5)
    record("all is free", settled(lambda: ray.available_resources().get("CPU") == 4))
    record.better(
        "a task that comes late",
        raised(lambda: ray.get(nap.options(scheduling_strategy=place).remote(), timeout=4)),
        want="TaskPlacementGroupRemoved",
        why="Ray lets it wait for ever",
    )


@case
def that_cannot_be_placed(record: Record) -> None:
    group = placement_group([{"CPU": 100}])
    record("wait", group.wait(0.5))
    record("state", placement_group_table(group)["state"])
    record("nodes", placement_group_table(group)["bundles_to_node_id"])
    spread = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    record("strict spread on one host", spread.wait(0.5))
    ready = group.ready()
    remove_placement_group(group)
    remove_placement_group(spread)
    with record.raises("its ready"):
        ray.get(ready, timeout=20)


@case
def that_waits_for_others(record: Record) -> None:
    first = placement_group([{"CPU": 3}])
    record("first", first.wait(5))
    second = placement_group([{"CPU": 1}, {"CPU": 1}])
    record("second", second.wait(0.5))
    record("nothing of it is taken", settled(lambda: ray.available_resources().get("CPU") == 1))
    remove_placement_group(first)
    record("after the first", second.wait(10))
    remove_placement_group(second)


@case
def wrong_groups(record: Record) -> None:
    for label, make, says in [
        ("no bundles", lambda: placement_group([]), ["empty list"]),
        ("no list", lambda: placement_group({"CPU": 1}), ["must be a list"]),
        ("empty bundle", lambda: placement_group([{}]), ["empty dictionary"]),
        ("zeros", lambda: placement_group([{"CPU": 0}]), ["0 values"]),
        ("no dicts", lambda: placement_group(["CPU"]), ["resource"]),
        ("texts", lambda: placement_group([{"CPU": "1"}]), ["resource"]),
        ("strategy", lambda: placement_group([{"CPU": 1}], strategy="X"), ["strategy X"]),
        ("lifetime", lambda: placement_group([{"CPU": 1}], lifetime="x"), ["lifetime"]),
        (
            "target",
            lambda: placement_group([{"CPU": 1}], _soft_target_node_id="ab" * 28),
            ["STRICT_PACK"],
        ),
        (
            "selectors",
            lambda: placement_group([{"CPU": 1}], bundle_label_selector=[]),
            ["length"],
        ),
        (
            "selector",
            lambda: placement_group([{"CPU": 1}], bundle_label_selector=[{"-": "x"}]),
            ["label key"],
        ),
        (
            "two strategies",
            lambda: placement_group([{"CPU": 1}], strategy="PACK", topology_strategy={}),
            ["both"],
        ),
        ("no name", lambda: get_placement_group(""), ["non-empty"]),
        ("unknown name", lambda: get_placement_group("nobody"), ["nobody"]),
    ]:
        with record.raises(label, says=says):
            make()
    keep = placement_group([{"CPU": 1}], name="taken")
    with record.raises("taken name", says=["already exists"]):
        placement_group([{"CPU": 1}], name="taken")
    remove_placement_group(keep)
    record("again", settled(lambda: raised(lambda: get_placement_group("taken")) is not None))
    again = placement_group([{"CPU": 1}], name="taken")
    record("usable", again.wait(10))
    remove_placement_group(again)


@case
def wrong_uses(record: Record) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    for label, place, says in [
        ("index", InGroup(group, 2), ["bundle index 2", "is invalid"]),
        ("negative index", InGroup(group, -2), ["is invalid"]),
    ]:
        with record.raises(label, says=says):
            where.options(scheduling_strategy=place).remote()
    with record.raises("too large", says=["cannot fit into any bundles", "{'CPU': 2}"]):
        where.options(num_cpus=2, scheduling_strategy=InGroup(group)).remote()
    with record.raises("too large an actor", says=["cannot fit"]):
        Member.options(num_gpus=1, scheduling_strategy=InGroup(group)).remote()
    with record.raises("index without group", says=["must be -1"]):
        where.options(placement_group_bundle_index=0).remote()
    with record.raises("both ways", says=["deprecated"]):
        where.options(placement_group=group, scheduling_strategy="DEFAULT").remote()
    with record.raises("unknown strategy", says=["Invalid scheduling_strategy value"]):
        where.options(scheduling_strategy="X").remote()
    remove_placement_group(group)


@case
def empty_group(record: Record) -> None:
    empty = PlacementGroup.empty()
    record("empty", (empty.is_empty, empty.id.hex()))
    record("ready", ray.get(empty.ready()) == empty)
    record("table", placement_group_table(empty))


@case
def handed_to_others(record: Record) -> None:
    group = placement_group([{"CPU": 1}])

    @ray.remote
    def use(group):
        return group.wait(10), ray.get(
            group_of_child.options(scheduling_strategy=InGroup(group)).remote()
        )

    @ray.remote
    def make():
        made = placement_group([{"CPU": 1}])
        made.wait(10)
        return made

    record("used by a task", ray.get(use.remote(group)))
    made = ray.get(make.remote())
    record("made by a task", (made.wait(10), placement_group_table(made)["state"]))
    remove_placement_group(made)
    remove_placement_group(group)


main(globals())
