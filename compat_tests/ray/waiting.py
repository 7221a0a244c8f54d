"""wait: counts, order, timeouts and wrong arguments."""

from __future__ import annotations

import asyncio

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
def identity(value):
    return value


@ray.remote
class Gate:
    """Answers `passed` only after `open`."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def passed(self, value=None):
        await self.opened.wait()
        return value

    async def open(self):
        self.opened.set()


def _held(count):
    gate = Gate.remote()
    return gate, [gate.passed.remote(n) for n in range(count)]


@case
def one_ready_by_default(record: Record) -> None:
    refs = [ray.put(n) for n in range(3)]
    ready, rest = ray.wait(refs)
    record("types", [type(ready).__name__, type(rest).__name__])
    record("counts", [len(ready), len(rest)])
    record("nothing lost", sorted(ray.get(ready + rest)))


@case
def num_returns_bounds_the_ready_ones(record: Record) -> None:
    refs = [ray.put(n) for n in range(5)]
    for count in (1, 3, 5):
        ready, rest = ray.wait(refs, num_returns=count)
        values, others = ray.get(ready), ray.get(rest)
        record(f"count {count}", len(values))
        record(f"both keep the order {count}", [values == sorted(values), others == sorted(others)])


@case
def ready_ones_come_before_held_ones(record: Record) -> None:
    gate, held = _held(2)
    done = ray.put("done")
    ready, rest = ray.wait([held[0], done, held[1]], num_returns=1)
    record("ready", ray.get(ready))
    record("rest is held, in order", rest == held)
    ray.get(gate.open.remote())
    ready, rest = ray.wait(held, num_returns=2)
    record("all in the order of the list", ray.get(ready))
    record("none left", rest)


@case
def timeout_returns_what_is_there(record: Record) -> None:
    gate, held = _held(2)
    done = ray.put(1)
    ready, rest = ray.wait([*held, done], num_returns=3, timeout=0.1)
    record("ready", ready == [done])
    record("rest", rest == held)
    ready, rest = ray.wait(held, timeout=0)
    record("zero", [len(ready), len(rest)])
    ray.get(gate.open.remote())


@case
def draining_one_at_a_time(record: Record) -> None:
    pending = [identity.remote(n) for n in range(50)]
    seen = []
    while pending:
        ready, pending = ray.wait(pending)
        seen.extend(ray.get(ready))
    record("all once", sorted(seen) == list(range(50)))


@case
def failed_tasks_count_as_ready(record: Record) -> None:
    @ray.remote
    def fail():
        raise ValueError("no")

    ref = fail.remote()
    ready, rest = ray.wait([ref], timeout=30)
    record("ready", ready == [ref])
    record("rest", rest)
    with record.raises("error"):
        ray.get(ready[0])


@case
def fetch_local_off(record: Record) -> None:
    ref = identity.remote("x" * 1_000_000)
    ready, _ = ray.wait([ref], fetch_local=False, timeout=30)
    record("ready", ready == [ref])


@case
def empty_list(record: Record) -> None:
    record("empty", ray.wait([], timeout=1))
    with record.raises("empty with default count"):
        ray.wait([])


@case
def duplicates_are_refused(record: Record) -> None:
    ref = ray.put(1)
    with record.raises("duplicate", says=["unique"]):
        ray.wait([ref, ref])


@case
def single_reference_instead_of_a_list(record: Record) -> None:
    with record.raises("single", says=["list"]):
        ray.wait(ray.put(1))


@case
def wrong_types(record: Record) -> None:
    with record.raises("ints in the list", says=["ObjectRef"]):
        ray.wait([1, 2])
    with record.raises("tuple"):
        ray.wait((ray.put(1),))
    with record.raises("none"):
        ray.wait(None)
    with record.raises("count as a text"):
        ray.wait([ray.put(1)], num_returns="1")
    with record.raises("timeout as a text"):
        ray.wait([ray.put(1)], timeout="1")


@case
def wrong_counts(record: Record) -> None:
    refs = [ray.put(1)]
    with record.raises("zero", says=["num_returns"]):
        ray.wait(refs, num_returns=0)
    with record.raises("negative", says=["num_returns"]):
        ray.wait(refs, num_returns=-1)
    with record.raises("more than there are", says=["num_returns"]):
        ray.wait(refs, num_returns=2)


@case
def negative_timeout(record: Record) -> None:
    with record.raises("negative", says=["timeout"]):
        ray.wait([ray.put(1)], timeout=-1)


@case
def wait_inside_a_task(record: Record) -> None:
    @ray.remote
    def collect(n):
        pending = [identity.remote(k) for k in range(n)]
        total = 0
        while pending:
            ready, pending = ray.wait(pending, num_returns=min(2, len(pending)))
            total += sum(ray.get(ready))
        return total

    record("total", ray.get(collect.remote(10)))


main(globals())
