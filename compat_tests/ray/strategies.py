"""Scheduling strategies and label selectors on one host."""

from __future__ import annotations

import ray
from ray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)

from compat_tests.harness.case import Record, case, main

NOWHERE = "ab" * 28


@ray.remote
def node():
    return ray.get_runtime_context().get_node_id()


@ray.remote
class Actor:
    def node(self):
        return ray.get_runtime_context().get_node_id()


def me():
    return ray.get_runtime_context().get_node_id()


def is_here(**options):
    return ray.get(node.options(**options).remote(), timeout=20) == me()


@case
def by_host(record: Record) -> None:
    here = NodeAffinitySchedulingStrategy(me(), soft=False)
    record("task", is_here(scheduling_strategy=here))
    actor = Actor.options(scheduling_strategy=here).remote()
    record("actor", ray.get(actor.node.remote()) == me())
    gone = NodeAffinitySchedulingStrategy(NOWHERE, soft=True)
    record("soft", is_here(scheduling_strategy=gone))
    gone = NodeAffinitySchedulingStrategy(NOWHERE, soft=False)
    with record.raises("hard", says=["doesn't exist any more or is infeasible", "soft=False"]):
        ray.get(node.options(scheduling_strategy=gone).remote(), timeout=20)
    with record.raises("hard actor", says=["doesn't exist any more or is infeasible"]):
        ray.get(Actor.options(scheduling_strategy=gone).remote().node.remote(), timeout=20)
    with record.raises("too large", says=["infeasible"]):
        ray.get(node.options(num_cpus=99, scheduling_strategy=here).remote(), timeout=20)
    record("goes on", is_here(scheduling_strategy=here))


@case
def spread_and_default(record: Record) -> None:
    record(
        "SPREAD", ray.get([node.options(scheduling_strategy="SPREAD").remote()] * 3) == [me()] * 3
    )
    record("DEFAULT", is_here(scheduling_strategy="DEFAULT"))
    actors = [Actor.options(scheduling_strategy="SPREAD").remote() for _ in range(3)]
    record("actors", ray.get([actor.node.remote() for actor in actors]) == [me()] * 3)
    many = [node.options(scheduling_strategy="SPREAD").remote() for _ in range(50)]
    record("many", set(ray.get(many)) == {me()})


@case
def by_label(record: Record) -> None:
    key = "ray.io/node-id"
    record("labels", ray.get_runtime_context().get_node_labels() == {key: me()})
    record("is", is_here(label_selector={key: me()}))
    record("in", is_here(label_selector={key: f"in({NOWHERE},{me()})"}))
    record("is not", is_here(label_selector={key: f"!{NOWHERE}"}))
    record("not in", is_here(label_selector={"zone": "!in(a,b)"}))
    other = [{"label_selector": {"zone": "b"}}, {"label_selector": {key: me()}}]
    record("else", is_here(label_selector={"zone": "a"}, fallback_strategy=other))
    for label, rules in [
        ("In", {key: In(me())}),
        ("NotIn", {key: NotIn(NOWHERE)}),
        ("Exists", {key: Exists()}),
        ("DoesNotExist", {"zone": DoesNotExist()}),
    ]:
        record(label, is_here(scheduling_strategy=NodeLabelSchedulingStrategy(rules)))
    soft = NodeLabelSchedulingStrategy({}, soft={"zone": In("a")})
    record("soft", is_here(scheduling_strategy=soft))
    with record.raises("nowhere"):
        ray.get(node.options(label_selector={"zone": "a"}).remote(), timeout=1)
    with record.raises("nowhere by strategy"):
        hard = NodeLabelSchedulingStrategy({"zone": Exists()})
        ray.get(node.options(scheduling_strategy=hard).remote(), timeout=1)
    record("_labels", is_here(_labels={"kind": "x"}))


@case
def wrong_strategies(record: Record) -> None:
    for label, make, says in [
        ("no hex", lambda: NodeAffinitySchedulingStrategy("xyz", False), ["Invalid node_id"]),
        ("nil", lambda: NodeAffinitySchedulingStrategy("ff" * 28, False), ["Invalid node_id"]),
        (
            "hard spill",
            lambda: NodeAffinitySchedulingStrategy(NOWHERE, False, _spill_on_unavailable=True),
            ["soft"],
        ),
        (
            "soft fail",
            lambda: NodeAffinitySchedulingStrategy(NOWHERE, True, _fail_on_unavailable=True),
            ["soft"],
        ),
        ("no rules", lambda: NodeLabelSchedulingStrategy({}), ["cannot both be empty"]),
        ("no map", lambda: NodeLabelSchedulingStrategy([1]), ["must be a map"]),
        ("no operator", lambda: NodeLabelSchedulingStrategy({"a": "b"}), ["operator"]),
        ("key", lambda: NodeLabelSchedulingStrategy({1: In("b")}), ["of type str"]),
        ("nothing in", lambda: In(), ["non-empty"]),
        ("number in", lambda: NotIn(1), ["must be str"]),
        ("value", lambda: node.options(label_selector={"x": "!!y"}), ["label selector value"]),
        ("name", lambda: node.options(label_selector={"-x": "y"}), ["label key name"]),
        ("prefix", lambda: node.options(label_selector={"a$/x": "y"}), ["label key prefix"]),
        ("type", lambda: node.options(label_selector={"x": 3}), []),
        ("empty else", lambda: node.options(fallback_strategy=[{}]), ["Empty dictionary"]),
        ("other else", lambda: node.options(fallback_strategy=[{"num_cpus": 1}]), ["num_cpus"]),
        ("no dict", lambda: node.options(fallback_strategy=["x"]), ["must be a dictionary"]),
    ]:
        with record.raises(label, says=says):
            make()


main(globals())
