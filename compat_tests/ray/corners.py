"""Corners: what lies between the features, found by trying everything beside Ray."""

from __future__ import annotations

import asyncio
import functools
import os
import pickle
import sys
import tempfile
import threading

import ray
import ray.exceptions

from compat_tests.harness.case import Record, case, main, raised


@ray.remote(num_cpus=0)
def run(function, *args):
    return function(*args)


@ray.remote(num_cpus=0)
def fail(error):
    raise error


@ray.remote(num_cpus=0)
class Runner:
    def __init__(self, *args):
        self.args = args
        self.calls = 0

    def run(self, function, *args):
        return function(*args)

    def count(self):
        self.calls += 1
        return self.calls


@ray.remote(num_cpus=0)
class Gate:
    def __init__(self):
        self.opened = asyncio.Event()

    async def passed(self):
        await self.opened.wait()

    async def open(self):
        self.opened.set()

    async def cancelled(self):
        raise asyncio.CancelledError()

    async def cancelled_inside(self):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future


def outcome(function):
    """What a call returns, or the name of the class of what it raises."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__


@case
def get_of_a_list_fails_as_soon_as_one_fails(record: Record) -> None:
    gate = Gate.remote()
    with record.raises("while another is held"):
        ray.get([gate.passed.remote(), fail.remote(KeyError("early"))], timeout=30)
    with record.raises("the failed one first"):
        ray.get([fail.remote(KeyError("early")), gate.passed.remote()], timeout=30)
    record("still works", ray.get([ray.put(1), ray.put(2)]))
    ray.get(gate.open.remote())


@case
def generator_keeps_what_it_yielded(record: Record) -> None:
    @ray.remote(num_returns=3, max_retries=0)
    def numbers(count, error=None):
        yield from range(count)
        if error is not None:
            raise error

    @ray.remote
    class Numbers:
        @ray.method(num_returns=3)
        def numbers(self, count, error=None):
            yield from range(count)
            if error is not None:
                raise error

    actor = Numbers.remote()
    for name, call in (("task", numbers.remote), ("method", actor.numbers.remote)):
        for count in (0, 2, 3, 4):
            for error in (None, ValueError("at the end")):
                refs = call(count, error)
                label = f"{name} {count} {error!r}"
                record(label, [outcome(functools.partial(ray.get, ref)) for ref in refs])


@case
def pickling_that_fails_keeps_the_class_of_its_error(record: Record) -> None:
    class Stubborn:
        def __reduce__(self):
            raise LookupError("not me")

    with record.raises("argument", says=["not me"]):
        run.remote(len, Stubborn())
    with record.raises("put", says=["not me"]):
        ray.put([Stubborn()])
    with record.raises("result"):
        ray.get(run.remote(lambda: Stubborn()))
    with record.raises("a lock", says=["lock"]):
        ray.put(threading.Lock())


@case
def one_value_in_several_arguments(record: Record) -> None:
    shared = [1]
    record.better(
        "two arguments",
        ray.get(run.remote(lambda a, b: a is b, shared, shared)),
        want=True,
        why="the arguments of a call are one value, in which what is shared stays shared",
    )
    record.better(
        "twice in a list",
        ray.get(run.remote(lambda items: items[0] is items[1], [shared, shared])),
        want=True,
        why="as pickle does it",
    )
    record("another call", ray.get(run.remote(lambda a, b: a is b, [1], [1])))


@case
def caught_error_as_a_value(record: Record) -> None:
    def catch():
        try:
            ray.get(fail.remote(KeyError("inner")))
        except Exception as error:
            return error

    record.better(
        "returned",
        outcome(lambda: type(ray.get(run.remote(catch))).__name__),
        want="RayTaskError(KeyError)",
        why="a value stays a value; Ray raises a RayTaskError that was returned",
    )
    record.better(
        "pickled",
        outcome(lambda: type(pickle.loads(pickle.dumps(catch()))).__name__),
        want="RayTaskError(KeyError)",
        why="errors travel through multiprocessing and files too",
    )
    record("other errors", type(ray.get(run.remote(lambda: KeyError("made")))).__name__)


@case
def methods_made_by_functools(record: Record) -> None:
    class Tools:
        def add(self, a, b):
            return a + b

        add_five = functools.partialmethod(add, 5)

    actor = ray.remote(Tools).remote()
    record("partial", ray.get(actor.add_five.remote(2)))
    record("with a keyword", ray.get(actor.add_five.remote(b=3)))


@case
def names_of_tasks(record: Record) -> None:
    def name():
        return ray.get_runtime_context().get_task_name()

    def outer():
        def inner():
            return ray.get_runtime_context().get_task_name()

        return inner

    actor = Runner.remote()
    record("nested", ray.get(ray.remote(outer()).remote()))
    record("lambda", ray.get(ray.remote(lambda: name()).remote()))
    record("method", ray.get(actor.run.remote(name)))
    record("named call of a method", ray.get(actor.run.options(name="special").remote(name)))
    record("afterwards", ray.get(actor.run.remote(name)))


@case
def task_of_a_constructor(record: Record) -> None:
    @ray.remote(num_cpus=0)
    class Looks:
        def __init__(self):
            context = ray.get_runtime_context()
            self.seen = context.get_task_id(), context.get_actor_id()

        def look(self):
            return self.seen

    task, actor = ray.get(Looks.remote().look.remote())
    record("task", task.replace(actor, "actor"))


@case
def context_of_a_task_has_no_actor(record: Record) -> None:
    def look():
        context = ray.get_runtime_context()
        return context.actor_id, sorted(context.get())

    record("task", ray.get(run.remote(look)))


@case
def sys_exit_with_zero_is_not_restarted(record: Record) -> None:
    for code in (0, 1):
        actor = Runner.options(max_restarts=1, max_task_retries=-1).remote()
        record("before", ray.get(actor.count.remote()))
        left = actor.run.options(max_task_retries=0).remote(sys.exit, code)
        record(f"exit {code}", raised(functools.partial(ray.get, left, timeout=30)))
        record(
            f"after {code}", outcome(functools.partial(ray.get, actor.count.remote(), timeout=30))
        )


@case
def constructor_whose_argument_failed(record: Record) -> None:
    early = fail.remote(KeyError("early"))
    ray.wait([early])
    for label, argument in (("failed", early), ("will fail", fail.remote(KeyError("late")))):
        with record.raises(label, says=["creation task", "KeyError"]):
            ray.get(Runner.remote(argument).count.remote())

    @ray.remote(max_retries=0)
    def crash():
        os._exit(1)

    with record.raises("crashed"):
        ray.get(Runner.remote(crash.remote()).count.remote())


@case
def cancelled_inside_an_async_actor(record: Record) -> None:
    gate = Gate.remote()
    with record.raises("raised"):
        ray.get(gate.cancelled.remote())
    with record.raises("awaited"):
        ray.get(gate.cancelled_inside.remote())

    async def wait():
        try:
            await gate.cancelled.remote()
        except Exception as error:
            return type(error).__name__

    record("awaited by the driver", asyncio.run(wait()))


@case
def amounts_that_are_no_amounts(record: Record) -> None:
    for amount in (float("nan"), float("inf")):
        with record.raises(f"cpus {amount}"):
            run.options(num_cpus=amount)
        with record.raises(f"custom {amount}"):
            Runner.options(resources={"rack": amount})
    with record.raises("more than a gpu, but not two", says=["whole number", "1.5"]):
        run.options(num_gpus=1.5).remote(len, [])
    with record.raises("for an actor", says=["whole number", "1.5"]):
        Runner.options(num_gpus=1.5).remote()
    with record.raises("not a number of seconds"):
        ray.get(ray.put(1), timeout=float("nan"))


@case
def options_of_other_types(record: Record) -> None:
    with record.raises("placement group", says=["placement_group"]):
        run.options(placement_group=5)
    with record.raises("label selector"):
        run.options(label_selector={"zone": 5})
    with record.raises("streaming without a generator", says=["generator"]):
        ray.method(num_returns="streaming")(lambda self: 1)
    with record.raises("by options", says=["generator"]):
        Runner.remote().run.options(num_returns="streaming")
    record("fetch_local", len(ray.wait([ray.put(1)], fetch_local=None)[0]))


@case
def made_errors_keep_what_they_were_made_of(record: Record) -> None:
    classes = ray.exceptions
    for error in (
        classes.RaySystemError("why"),
        classes.RaySystemError("why", traceback_str="where"),
        classes.TaskCancelledError(),
        classes.TaskCancelledError(error_message="why"),
        classes.RpcError("why"),
        classes.RpcError("why", 14),
        classes.RuntimeEnvSetupError(),
        classes.RuntimeEnvSetupError("why"),
        classes.TaskPlacementGroupRemoved(),
        classes.RayTaskError("f", "text", ValueError("why")),
    ):
        back = pickle.loads(pickle.dumps(error))
        label = type(error).__name__
        record(f"{label} args", [str(item) for item in error.args])
        record(f"{label} args back", [str(item) for item in back.args[:3]])
        record(f"{label} fields back", sorted(vars(back)))
    with record.raises("a cause that is none"):
        classes.ActorDiedError("text")
    made = classes.RayTaskError("f", "text", ValueError("why"))
    record("of this process", made.pid == os.getpid())
    record("of this host", made.ip == ray.util.get_node_ip_address())


@case
def logging_config_is_checked_and_compared(record: Record) -> None:
    record("repr", repr(ray.LoggingConfig(additional_log_standard_attrs=["name"])))
    record("equal", ray.LoggingConfig() == ray.LoggingConfig(encoding="TEXT"))
    with record.raises("unknown attribute", says=["nope"]):
        ray.LoggingConfig(additional_log_standard_attrs=["nope"])
    with record.raises("unknown encoding", says=["XML"]):
        ray.LoggingConfig(encoding="XML")


@case
def reference_for_those_who_ask_for_details(record: Record) -> None:
    ref = ray.put(1)
    record("call site", ref.call_site())
    record("from binary", ray.ObjectRef.from_binary(ref.binary()) == ref)

    async def work():
        return await ref.as_future()

    record("old future", asyncio.run(work()))
    record("in annotations", ray.ObjectRef[int].__args__ == (int,))


@case
def name_of_a_node(record: Record) -> None:
    node = ray.nodes()[0]
    record("name is the address", node["NodeName"] == node["NodeManagerAddress"])


@case(own_session=True)
def init_with_parts_of_resources(record: Record) -> None:
    for wrong in (
        {"num_cpus": 1.5},
        {"num_gpus": 0.5},
        {"resources": {"rack": 1.5}},
        {"_memory": -1},
    ):
        with record.raises(f"{wrong}", says=["quantities"]):
            ray.init(include_dashboard=False, **wrong)
    record("not running", ray.is_initialized())
    with ray.init(num_cpus=1, include_dashboard=False, _node_name="here") as context:
        record("items", sorted(context.items()) == sorted(context.address_info.items()))
        record("unpacked", {**context} == context.address_info)
        record("node name", ray.nodes()[0]["NodeName"])


@case
def script_knows_its_whole_path(record: Record) -> None:
    record("file", os.path.isabs(__file__))
    record("code", os.path.isabs(outcome.__code__.co_filename))
    with tempfile.TemporaryDirectory() as folder:
        record("in a worker", ray.get(run.remote(os.path.isdir, folder)))


main(globals())
