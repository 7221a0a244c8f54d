"""Resources: amounts, fractions, custom ones, blocked workers."""

from __future__ import annotations

import asyncio

import ray

from compat_tests.harness.case import MB, Record, case, main

INIT = {
    "num_cpus": 2,
    "resources": {"custom": 2, "rare": 1},
    "include_dashboard": False,
    "log_to_driver": False,
    "object_store_memory": 100 * MB,
}


@ray.remote(num_cpus=0)
class Meeting:
    """Tells how many callers were inside at once; callers leave when told."""

    def __init__(self):
        self.inside = 0
        self.changed = asyncio.Condition()
        self.opened = asyncio.Event()

    async def enter(self):
        async with self.changed:
            self.inside += 1
            self.changed.notify_all()
        await self.opened.wait()
        return self.inside

    async def wait_for(self, count):
        async with self.changed:
            await self.changed.wait_for(lambda: self.inside >= count)
        return self.inside

    async def open(self):
        self.opened.set()


def most_at_once(task, *, calls, expect):
    """How many of `calls` tasks get inside before anybody leaves."""
    meeting = Meeting.remote()
    refs = [task.remote(meeting) for _ in range(calls)]
    ray.get(meeting.wait_for.remote(expect))
    _, pending = ray.wait(refs, num_returns=calls, timeout=0.5)
    inside = ray.get(meeting.wait_for.remote(expect))
    ray.get(meeting.open.remote())
    ray.get(refs)
    return inside, len(pending)


@ray.remote
class Enters:
    """An actor that stays inside; it keeps its resources for as long as it lives."""

    def __init__(self, meeting):
        meeting.enter.remote()


@case
def cluster_and_available(record: Record) -> None:
    total = ray.cluster_resources()
    record("cpus", total["CPU"])
    record("custom", [total["custom"], total["rare"]])
    record("kinds", sorted(key for key in total if not key.startswith("node:")))
    record("node entries", sum(key.startswith("node:") for key in total))
    record("store", total["object_store_memory"])


@case
def amounts_a_task_sees(record: Record) -> None:
    @ray.remote
    def assigned():
        return sorted(ray.get_runtime_context().get_assigned_resources().items())

    record("default", ray.get(assigned.remote()))
    record("fraction", ray.get(assigned.options(num_cpus=0.5).remote()))
    record("custom", ray.get(assigned.options(num_cpus=1, resources={"custom": 1}).remote()))
    record("zero", ray.get(assigned.options(num_cpus=0).remote()))


@case
def actor_takes_its_resources(record: Record) -> None:
    @ray.remote(resources={"rare": 1})
    class Owner:
        def ok(self):
            return "ok"

    owner = Owner.remote()
    ray.get(owner.ok.remote())
    record("first", "ok")

    @ray.remote(num_cpus=0, resources={"rare": 1})
    def needs_it():
        return "got it"

    ref = needs_it.remote()
    ready, _ = ray.wait([ref], timeout=0.5)
    record("held back", len(ready))
    ray.kill(owner)
    record("afterwards", ray.get(ref))


@case
def custom_resource_bounds_tasks(record: Record) -> None:
    @ray.remote(num_cpus=0, resources={"custom": 1})
    def inside(meeting):
        return ray.get(meeting.enter.remote())

    record("at once", most_at_once(inside, calls=4, expect=2))


@case
def fractional_resources_add_up(record: Record) -> None:
    @ray.remote(num_cpus=0, resources={"custom": 0.5})
    def inside(meeting):
        return ray.get(meeting.enter.remote())

    record("at once", most_at_once(inside, calls=6, expect=4))


@case
def blocked_get_gives_its_cpu_back(record: Record) -> None:
    @ray.remote
    def leaf():
        return 1

    @ray.remote
    def middle():
        return ray.get(leaf.remote())

    @ray.remote
    def top():
        return sum(ray.get([middle.remote() for _ in range(2)]))

    record("more levels than cpus", ray.get([top.remote() for _ in range(2)]))


@case
def blocked_wait_gives_its_cpu_back(record: Record) -> None:
    @ray.remote
    def leaf():
        return 1

    @ray.remote
    def waits():
        ready, _ = ray.wait([leaf.remote()])
        return ray.get(ready[0])

    record("values", ray.get([waits.remote() for _ in range(4)]))


@case
def actors_with_zero_cpus_are_not_bounded(record: Record) -> None:
    @ray.remote
    class Light:
        def ok(self):
            return 1

    actors = [Light.remote() for _ in range(5)]
    record("all answer", sum(ray.get([actor.ok.remote() for actor in actors])))


@case
def impossible_amount_stays_pending(record: Record) -> None:
    @ray.remote(num_cpus=1000)
    def impossible():
        return 1

    ref = impossible.remote()
    ready, pending = ray.wait([ref], timeout=0.5)
    record("pending", [len(ready), len(pending)])
    with record.raises("get", says=["timed out"]):
        ray.get(ref, timeout=0.5)

    @ray.remote
    def possible():
        return "ok"

    record("others go on", ray.get(possible.remote()))


@case
def unknown_resource_stays_pending(record: Record) -> None:
    @ray.remote(resources={"unheard of": 1})
    def impossible():
        return 1

    ready, _ = ray.wait([impossible.remote()], timeout=0.5)
    record("ready", len(ready))


@case
def gpus_without_gpus(record: Record) -> None:
    record("driver", ray.get_gpu_ids())

    @ray.remote
    def ids():
        return ray.get_gpu_ids()

    record("task", ray.get(ids.remote()))


main(globals())
