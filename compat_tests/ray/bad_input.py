"""Bad input: each is refused with a message, and the system goes on."""

from __future__ import annotations

import os
import threading

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
def identity(value=None):
    return value


@ray.remote
class Actor:
    def method(self, value=None):
        return value


class Unpicklable:
    def __reduce__(self):
        raise TypeError("refuses to be pickled")


def goes_on(record):
    record("task afterwards", ray.get(identity.remote(1)))
    record("actor afterwards", ray.get(Actor.remote().method.remote(2)))


@case
def argument_that_cannot_be_serialized(record: Record) -> None:
    with record.raises("lock", says=["serialize"]):
        identity.remote(threading.Lock())
    with record.raises("own refusal"):
        identity.remote(Unpicklable())
    with record.raises("put"):
        ray.put(threading.Lock())
    with record.raises("method"):
        Actor.remote().method.remote(threading.Lock())
    with record.raises("constructor"):

        @ray.remote
        class Takes:
            def __init__(self, value):
                pass

        Takes.remote(threading.Lock())
    goes_on(record)


@case
def function_that_cannot_be_serialized(record: Record) -> None:
    lock = threading.Lock()

    @ray.remote
    def captures():
        return lock

    with record.raises("function", says=["captures", "serialize"]):
        captures.remote()

    @ray.remote
    class Captures:
        def method(self):
            return lock

    with record.raises("class", says=["serialize"]):
        Captures.remote()
    goes_on(record)


@case
def unknown_option(record: Record) -> None:
    with record.raises("decorator", says=["num_cpu"]):

        @ray.remote(num_cpu=1)
        def misspelt():
            pass

    with record.raises("options", says=["max_retry"]):
        identity.options(max_retry=1)
    with record.raises("actor", says=["num_returns"]):
        Actor.options(num_returns=2).remote()
    with record.raises("actor option on a task", says=["max_restarts"]):
        identity.options(max_restarts=1)
    with record.raises("class decorator", says=["max_retries"]):

        @ray.remote(max_retries=1)
        class Wrong:
            pass

    goes_on(record)


@case
def option_of_a_wrong_type(record: Record) -> None:
    with record.raises("num_cpus text", says=["num_cpus"]):
        identity.options(num_cpus="1").remote()
    with record.raises("resources list", says=["resources"]):
        identity.options(resources=["x"]).remote()
    with record.raises("num_returns fraction", says=["num_returns"]):
        identity.options(num_returns=1.5).remote()
    with record.raises("max_retries text"):
        identity.options(max_retries="x").remote()
    with record.raises("name number"):
        identity.options(name=3).remote()
    goes_on(record)


@case
def option_out_of_range(record: Record) -> None:
    with record.raises("negative cpus", says=["num_cpus"]):
        identity.options(num_cpus=-1).remote()
    with record.raises("negative returns", says=["num_returns"]):
        identity.options(num_returns=-1).remote()
    with record.raises("retries below -1", says=["max_retries"]):
        identity.options(max_retries=-2).remote()
    with record.raises("finer than 1e-4"):
        identity.options(num_cpus=0.00001).remote()
    with record.raises("cpu in resources", says=["CPU"]):
        identity.options(resources={"CPU": 1}).remote()
    with record.raises("restarts below -1", says=["max_restarts"]):
        Actor.options(max_restarts=-2).remote()
    goes_on(record)


@case
def decorator_used_wrongly(record: Record) -> None:
    with record.raises("positional argument"):
        ray.remote(1)
    with record.raises("text"):
        ray.remote("function")
    with record.raises("empty brackets"):

        @ray.remote()
        def brackets():
            pass

    with record.raises("two positional"):
        ray.remote(lambda: 0, lambda: 1)


@case
def called_directly(record: Record) -> None:
    with record.raises("function", says=["remote", "identity"]):
        identity(1)
    with record.raises("class", says=["remote", "Actor"]):
        Actor()
    actor = Actor.remote()
    with record.raises("method", says=["remote", "method"]):
        actor.method(1)
    goes_on(record)


@case
def method_that_does_not_exist(record: Record) -> None:
    actor = Actor.remote()
    with record.raises("method", says=["missing"]):
        actor.missing.remote()
    with record.raises("on the class"):
        Actor.missing()
    goes_on(record)


@case
def wrong_call_signature(record: Record) -> None:
    @ray.remote
    def two(a, b):
        return a, b

    with record.raises("too few", says=["b"]):
        two.remote(1)
    with record.raises("too many"):
        two.remote(1, 2, 3)
    with record.raises("unknown keyword", says=["c"]):
        two.remote(1, 2, c=3)
    with record.raises("twice", says=["a"]):
        two.remote(1, a=2)
    actor = Actor.remote()
    with record.raises("method"):
        actor.method.remote(1, 2, 3)
    with record.raises("constructor"):
        Actor.remote(1)
    goes_on(record)


@case
def reference_where_a_value_is_needed(record: Record) -> None:
    ref = ray.put(1)
    with record.raises("arithmetic"):
        ref + 1
    with record.raises("iteration", says=["ObjectRef"]):
        list(ref)
    with record.raises("index"):
        ref[0]
    with record.raises("call"):
        ref()
    goes_on(record)


@case
def more_returns_than_declared(record: Record) -> None:
    @ray.remote(num_returns=2)
    def returns(values):
        return values

    refs = returns.remote((1, 2, 3))
    with record.raises("too many", says=["num_returns", "3"]):
        ray.get(refs)
    refs = returns.remote((1,))
    with record.raises("too few", says=["num_returns", "1"]):
        ray.get(refs)
    refs = returns.remote(None)
    with record.raises("not a sequence"):
        ray.get(refs)
    goes_on(record)


@case
def result_that_cannot_be_pickled(record: Record) -> None:
    @ray.remote
    def lock():
        return threading.Lock()

    with record.raises("lock", says=["serialize"]):
        ray.get(lock.remote())

    @ray.remote
    def own():
        return Unpicklable()

    with record.raises("own refusal", says=["refuses to be pickled"]):
        ray.get(own.remote())

    @ray.remote
    class Gives:
        def lock(self):
            return threading.Lock()

        def ok(self):
            return "ok"

    gives = Gives.remote()
    with record.raises("method"):
        ray.get(gives.lock.remote())
    record("actor lives", ray.get(gives.ok.remote()))
    goes_on(record)


@case
def result_that_cannot_be_unpickled(record: Record) -> None:
    class Poison:
        def __reduce__(self):
            return _explode, ()

    @ray.remote
    def poison():
        return Poison()

    with record.raises("get", says=["cannot be rebuilt"]):
        ray.get(poison.remote())
    goes_on(record)


def _explode():
    raise RuntimeError("cannot be rebuilt")


@case
def exception_that_cannot_be_pickled(record: Record) -> None:
    class Holding(Exception):
        def __init__(self):
            super().__init__("holds a lock")
            self.lock = threading.Lock()

    @ray.remote
    def raise_it():
        raise Holding()

    try:
        ray.get(raise_it.remote())
    except ray.exceptions.RayTaskError as error:
        record("text", "holds a lock" in str(error))
        record.better(
            "class",
            isinstance(error, Holding),
            want=True,
            why="the user's class arrives though a member of it cannot be pickled",
        )
    goes_on(record)


@case
def constructor_that_raises(record: Record) -> None:
    @ray.remote
    class Refuses:
        def __init__(self):
            raise ValueError("refused")

        def method(self):
            return 1

    actor = Refuses.remote()
    with record.raises("method", says=["refused"]):
        ray.get(actor.method.remote())
    goes_on(record)


@case
def task_that_exits(record: Record) -> None:
    @ray.remote(max_retries=0)
    def leave():
        os._exit(7)

    with record.raises("exit"):
        ray.get(leave.remote())
    goes_on(record)


@case
def kill_with_wrong_arguments(record: Record) -> None:
    with record.raises("keyword"):
        ray.kill(Actor.remote(), restart=True)
    goes_on(record)


@case
def method_with_unknown_decorator_option(record: Record) -> None:
    with record.raises("unknown"):

        @ray.remote
        class Wrong:
            @ray.method(num_return=2)
            def method(self):
                pass

    with record.raises("none"):

        @ray.remote
        class Empty:
            @ray.method()
            def method(self):
                pass


main(globals())
