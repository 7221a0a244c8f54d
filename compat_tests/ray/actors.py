"""Actors: creating, calling, state, handles."""

from __future__ import annotations

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
class Counter:
    """Counts."""

    step = 1

    def __init__(self, start=0, *, name="counter"):
        self.value = start
        self.name = name

    def increment(self, by=None):
        self.value += self.step if by is None else by
        return self.value

    def read(self):
        return self.value

    def describe(self):
        return f"{self.name}={self.value}"

    @ray.method(num_returns=2)
    def pair(self):
        return self.value, self.name

    def several(self, n):
        return list(range(n))


@case
def state_is_kept_and_calls_run_in_order(record: Record) -> None:
    counter = Counter.remote()
    record("values", ray.get([counter.increment.remote() for _ in range(10)]))
    record("read", ray.get(counter.read.remote()))


@case
def constructor_arguments(record: Record) -> None:
    record("positional", ray.get(Counter.remote(5).describe.remote()))
    record("keyword", ray.get(Counter.remote(start=7, name="k").describe.remote()))
    record("reference", ray.get(Counter.remote(ray.put(9)).describe.remote()))


@case
def method_arguments(record: Record) -> None:
    counter = Counter.remote()
    record("keyword", ray.get(counter.increment.remote(by=4)))
    record("reference", ray.get(counter.increment.remote(ray.put(6))))
    record("result of another call", ray.get(counter.increment.remote(counter.read.remote())))


@case
def method_with_several_returns(record: Record) -> None:
    counter = Counter.remote(3)
    refs = counter.pair.remote()
    record("count", len(refs))
    record("values", ray.get(refs))
    record("options", ray.get(counter.several.options(num_returns=3).remote(3)))


@case
def options_of_the_class(record: Record) -> None:
    counter = Counter.options(num_cpus=1).remote(2)
    record("value", ray.get(counter.read.remote()))

    @ray.remote(num_cpus=0.5, max_restarts=0)
    class Small:
        def ok(self):
            return "ok"

    record("decorated", ray.get(Small.remote().ok.remote()))


@case
def handle_as_an_argument(record: Record) -> None:
    @ray.remote
    def bump(counter, times):
        return ray.get([counter.increment.remote() for _ in range(times)])

    counter = Counter.remote()
    record("in a task", ray.get(bump.remote(counter, 3)))
    record("seen by the driver", ray.get(counter.read.remote()))
    record("in a list", ray.get(bump.remote(ray.get(ray.put([counter]))[0], 2)))


@case
def handle_held_by_another_actor(record: Record) -> None:
    @ray.remote
    class Caller:
        def __init__(self, target):
            self.target = target

        def call(self):
            return ray.get(self.target.increment.remote())

    counter = Counter.remote()
    callers = [Caller.remote(counter) for _ in range(2)]
    record("values", sorted(ray.get([caller.call.remote() for caller in callers])))


@case
def actor_creates_an_actor(record: Record) -> None:
    @ray.remote
    class Parent:
        def __init__(self):
            self.child = Counter.remote(100)

        def ask(self):
            return ray.get(self.child.increment.remote())

        def hand_over(self):
            return self.child

    parent = Parent.remote()
    record("through the parent", ray.get(parent.ask.remote()))
    child = ray.get(parent.hand_over.remote())
    record("type", type(child).__name__)
    record("directly", ray.get(child.increment.remote()))


@case
def task_returns_an_actor(record: Record) -> None:
    @ray.remote
    def make():
        return Counter.remote(41)

    record("value", ray.get(ray.get(make.remote()).increment.remote()))


@case
def actor_calls_tasks(record: Record) -> None:
    @ray.remote
    def double(x):
        return 2 * x

    @ray.remote
    class Worker:
        def work(self, values):
            return ray.get([double.remote(v) for v in values])

    record("values", ray.get(Worker.remote().work.remote([1, 2, 3])))


@case
def inheritance_and_class_attributes(record: Record) -> None:
    class Base:
        kind = "base"

        def hello(self):
            return f"hello from {self.kind}"

        @staticmethod
        def static():
            return "static"

        @classmethod
        def of_class(cls):
            return cls.__name__

    @ray.remote
    class Derived(Base):
        kind = "derived"

        def hello(self):
            return super().hello() + "!"

    actor = Derived.remote()
    record("method", ray.get(actor.hello.remote()))
    record("static", ray.get(actor.static.remote()))
    record("class method", ray.get(actor.of_class.remote()))


@case
def class_without_a_constructor(record: Record) -> None:
    @ray.remote
    class Plain:
        def ok(self):
            return "ok"

    record("value", ray.get(Plain.remote().ok.remote()))


@case
def remote_applied_to_a_class(record: Record) -> None:
    class Later:
        def __init__(self, x):
            self.x = x

        def get(self):
            return self.x

    wrapped = ray.remote(Later)
    record("value", ray.get(wrapped.remote(1).get.remote()))
    record("with options", ray.get(ray.remote(num_cpus=0)(Later).remote(2).get.remote()))
    record("the class still works", Later(3).get())
    record("type of the wrapper", type(wrapped).__name__.split("(")[0])


@case
def repr_of_a_handle(record: Record) -> None:
    counter = Counter.remote()
    record("handle", repr(counter).startswith("Actor(Counter, "))
    record("id length", len(counter._actor_id.hex()))
    record("id is in repr", counter._actor_id.hex() in repr(counter))


@case
def equality_of_handles(record: Record) -> None:
    @ray.remote
    def same(handle):
        return handle

    counter = Counter.remote()
    back = ray.get(same.remote(counter))
    record("equal", back == counter)
    record("hash", hash(back) == hash(counter))
    record("other", Counter.remote() == counter)


@case
def dunder_methods_and_properties(record: Record) -> None:
    @ray.remote
    class Sized:
        def __len__(self):
            return 3

        def __call__(self, x):
            return x + 1

        @property
        def size(self):
            return 3

    actor = Sized.remote()
    record("len", ray.get(actor.__len__.remote()))
    record("call", ray.get(actor.__call__.remote(1)))
    with record.raises("property"):
        actor.size.remote()


@case
def ray_call_runs_a_function_on_the_actor(record: Record) -> None:
    counter = Counter.remote(5)
    record("value", ray.get(counter.__ray_call__.remote(lambda self, x: self.value + x, 10)))


@case
def ray_ready_and_terminate(record: Record) -> None:
    counter = Counter.remote()
    record("ready", ray.get(counter.__ray_ready__.remote()))


@case
def generator_method_with_declared_returns(record: Record) -> None:
    @ray.remote
    class Producer:
        @ray.method(num_returns=3)
        def produce(self):
            yield from range(3)

    record("values", ray.get(list(Producer.remote().produce.remote())))


@case
def mutable_state_is_not_shared_with_the_caller(record: Record) -> None:
    @ray.remote
    class Keeper:
        def __init__(self, items):
            self.items = items

        def append(self, item):
            self.items.append(item)
            return self.items

    items = [1]
    keeper = Keeper.remote(items)
    returned = ray.get(keeper.append.remote(2))
    returned.append("local")
    record("actor", ray.get(keeper.append.remote(3)))
    record("driver", items)


@case
def many_actors(record: Record) -> None:
    actors = [Counter.options(num_cpus=0).remote(n) for n in range(8)]
    record("values", ray.get([actor.increment.remote() for actor in actors]))


@case
def order_holds_though_an_argument_is_late(record: Record) -> None:
    @ray.remote
    def later(value):
        return value

    counter = Counter.remote()
    slow = later.remote(later.remote(later.remote(5)))
    first = counter.increment.remote(slow)
    second = counter.increment.remote(1)
    record("values", ray.get([first, second]))


@case
def bound_method_can_be_kept_and_passed(record: Record) -> None:
    counter = Counter.remote()
    method = counter.increment
    record("kept", ray.get([method.remote(), method.remote(by=2)]))


main(globals())
