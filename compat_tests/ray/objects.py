"""Objects: put, get, references in arguments and results."""

from __future__ import annotations

import asyncio
import concurrent.futures

import ray

from compat_tests.harness.case import Record, case, main, raised


@ray.remote
def identity(value):
    return value


@ray.remote
class Gate:
    """Holds back whoever awaits `passed` until somebody calls `open`."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def passed(self, value=None):
        await self.opened.wait()
        return value

    async def open(self):
        self.opened.set()


@case
def put_and_get(record: Record) -> None:
    ref = ray.put({"a": [1, 2]})
    record("type", type(ref).__name__)
    record("value", ray.get(ref))
    record("again", ray.get(ref))


@case
def get_of_a_list_keeps_order_and_duplicates(record: Record) -> None:
    refs = [ray.put(n) for n in range(4)]
    record("list", ray.get([refs[3], refs[0], refs[3]]))
    record("empty", ray.get([]))
    record("returns a list", type(ray.get(refs)).__name__)


@case
def get_of_other_containers(record: Record) -> None:
    ref = ray.put(1)
    with record.raises("tuple"):
        ray.get((ref,))
    with record.raises("set"):
        ray.get({ref})
    with record.raises("dict"):
        ray.get({"a": ref})
    with record.raises("generator"):
        ray.get(ref for _ in range(1))
    with record.raises("nested list"):
        ray.get([[ref]])


@case
def get_of_a_value_that_is_no_reference(record: Record) -> None:
    with record.raises("int", says=["int"]):
        ray.get(1)
    with record.raises("none", says=["none"]):
        ray.get(None)
    with record.raises("list with an int", says=["int"]):
        ray.get([ray.put(1), 2])
    with record.raises("string"):
        ray.get("ref")
    record("still works", ray.get(ray.put(5)))


@case
def get_with_timeout(record: Record) -> None:
    gate = Gate.remote()
    held = gate.passed.remote("late")
    with record.raises("short", says=["timed out"]):
        ray.get(held, timeout=0.1)
    with record.raises("zero", says=["timed out"]):
        ray.get(held, timeout=0)
    with record.raises("one of several", says=["timed out"]):
        ray.get([ray.put(1), held], timeout=0.1)
    ready = ray.put(2)
    record("ready with zero", ray.get(ready, timeout=0))
    ray.get(gate.open.remote())
    record("in time", ray.get(held, timeout=30))


@case
def get_with_wrong_timeout(record: Record) -> None:
    ref = ray.put(1)
    record.better(
        "text",
        raised(lambda: ray.get(ref, timeout="1")),
        want="TypeError",
        why="Ray reads memory beyond the text and raises OverflowError or waits",
    )
    with record.raises("positional"):
        ray.get(ref, 1)
    record("none", ray.get(ref, timeout=None))
    record("fraction", ray.get(ref, timeout=0.5))


@case
def put_of_a_reference(record: Record) -> None:
    with record.raises("put of a ref", says=["ObjectRef"]):
        ray.put(ray.put(1))
    record("in a list", type(ray.get(ray.put([ray.put(1)]))[0]).__name__)


@case
def equality_and_hash(record: Record) -> None:
    ref = ray.put(1)
    copy = ray.get(ray.put([ref]))[0]
    record("equal", ref == copy)
    record("same hash", hash(ref) == hash(copy))
    record("in a set", len({ref, copy}))
    record("other", ref == ray.put(1))
    record("not a value", ref == 1)
    record("as a key", {ref: "x"}[copy])


@case
def textual_forms(record: Record) -> None:
    ref = ray.put(1)
    record("hex length", len(ref.hex()))
    record("binary length", len(ref.binary()))
    record("binary is hex", ref.binary().hex() == ref.hex())
    record("repr", repr(ref) == f"ObjectRef({ref.hex()})")
    record("str", str(ref) == repr(ref))
    record("nil", ref.is_nil())
    record("task id type", type(ref.task_id()).__name__)
    record("job id type", type(ref.job_id()).__name__)
    record("task id length", len(ref.task_id().hex()))
    record("job of the driver", ref.job_id().hex() == ray.get_runtime_context().get_job_id())
    record("round trip", ray.ObjectRef(ref.binary()) == ref)


@case
def references_of_one_call_differ_in_their_index(record: Record) -> None:
    @ray.remote(num_returns=2)
    def pair():
        return 1, 2

    first, second = pair.remote()
    record("same task", first.task_id() == second.task_id())
    record("different", first != second)
    record("common prefix", first.hex()[:48] == second.hex()[:48])


@case
def reference_as_an_argument_becomes_its_value(record: Record) -> None:
    record("positional", ray.get(identity.remote(ray.put(5))))
    record("keyword", ray.get(identity.remote(value=ray.put(6))))
    record("of a task", ray.get(identity.remote(identity.remote(7))))


@case
def reference_inside_an_argument_stays_a_reference(record: Record) -> None:
    @ray.remote
    def look(container):
        inner = container["ref"]
        return type(inner).__name__, ray.get(inner)

    record("dict", ray.get(look.remote({"ref": ray.put("deep")})))
    record("put list", ray.get(look.remote(ray.put({"ref": ray.put("deeper")}))))


@case
def reference_in_a_result(record: Record) -> None:
    @ray.remote
    def make():
        return ray.put("inner")

    @ray.remote
    def make_list():
        return [ray.put(n) for n in range(3)]

    outer = ray.get(make.remote())
    record("type", type(outer).__name__)
    record("value", ray.get(outer))
    record("list", ray.get(ray.get(make_list.remote())))


@case
def reference_passed_through_several_tasks(record: Record) -> None:
    @ray.remote
    def forward(container, hops):
        if hops == 0:
            return container
        return ray.get(forward.remote(container, hops - 1))

    ref = ray.put("payload")
    came_back = ray.get(forward.remote([ref], 3))[0]
    record("same", came_back == ref)
    record("value", ray.get(came_back))


@case
def reference_captured_by_a_closure(record: Record) -> None:
    ref = ray.put([1, 2, 3])

    @ray.remote
    def total():
        return sum(ray.get(ref))

    record("total", ray.get(total.remote()))


@case
def object_lives_as_long_as_a_container_that_holds_it(record: Record) -> None:
    container = ray.put([ray.put("kept")])
    record("value", ray.get(ray.get(container)[0]))


@case
def many_references_in_one_object(record: Record) -> None:
    @ray.remote
    def make(n):
        return [ray.put(k) for k in range(n)]

    refs = ray.get(make.remote(1000))
    record("count", len(refs))
    record("sum", sum(ray.get(refs)))


@case
def future_of_a_reference(record: Record) -> None:
    future = identity.remote(3).future()
    record("type", isinstance(future, concurrent.futures.Future))
    record("value", future.result(timeout=30))

    @ray.remote
    def fail():
        raise ValueError("in the future")

    error = fail.remote().future().exception(timeout=30)
    record("error", isinstance(error, ValueError))


@case
def await_a_reference_in_the_driver(record: Record) -> None:
    async def work():
        single = await identity.remote(1)
        several = await asyncio.gather(*[identity.remote(n) for n in range(5)])
        return single, several

    record("values", asyncio.run(work()))


@case
def await_a_failing_reference(record: Record) -> None:
    @ray.remote
    def fail():
        raise KeyError("missing")

    async def work():
        await fail.remote()

    with record.raises("error"):
        asyncio.run(work())


@case
def await_with_a_deadline(record: Record) -> None:
    gate = Gate.remote()
    held = gate.passed.remote("late")

    async def work():
        try:
            await asyncio.wait_for(asyncio.wrap_future(held.future()), timeout=0.1)
        except asyncio.TimeoutError:
            return "timed out"

    record("deadline", asyncio.run(work()))
    ray.get(gate.open.remote())
    record("afterwards", ray.get(held))


@case
def asyncio_wait_takes_references(record: Record) -> None:
    async def work():
        tasks = [asyncio.ensure_future(_value(identity.remote(n))) for n in range(3)]
        done, pending = await asyncio.wait(tasks, timeout=30)
        return sorted(task.result() for task in done), len(pending)

    async def _value(ref):
        return await ref

    record("done", asyncio.run(work()))


@case
def equal_values_are_separate_objects(record: Record) -> None:
    value = [1]
    first, second = ray.put(value), ray.put(value)
    value.append(2)
    record("first", ray.get(first))
    record("different", first != second)
    one = ray.get(first)
    one.append("changed")
    record("unchanged", ray.get(first))


@case
def reference_pickled_by_hand(record: Record) -> None:
    import ray.cloudpickle as pickle

    ref = ray.put("value")
    record("value", ray.get(pickle.loads(pickle.dumps({"ref": ref}))["ref"]))


main(globals())
