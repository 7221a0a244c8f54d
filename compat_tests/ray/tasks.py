"""Tasks: declaring, calling, options, nesting, captured values."""

from __future__ import annotations

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
def add(a, b=10, *rest, scale=1, **more):
    return (a + b + sum(rest)) * scale + sum(more.values())


@ray.remote
def identity(value):
    return value


@case
def positional_default_and_keyword_arguments(record: Record) -> None:
    record("positional", ray.get(add.remote(1, 2)))
    record("default", ray.get(add.remote(1)))
    record("keyword", ray.get(add.remote(b=5, a=2)))
    record("variadic", ray.get(add.remote(1, 2, 3, 4)))
    record("keyword only", ray.get(add.remote(1, 2, scale=3)))
    record("more keywords", ray.get(add.remote(1, 2, x=100, y=200)))


@case
def values_keep_type_and_content(record: Record) -> None:
    values = [
        None,
        True,
        0,
        -(2**70),
        1.5,
        float("inf"),
        "text \u00e9\u4e2d",
        b"\x00bytes",
        [1, [2, (3,)]],
        {"a": {1, 2}, 3: frozenset({4})},
        range(5),
        1 + 2j,
        slice(1, 2),
        Ellipsis,
        int,
        ValueError("as a value"),
    ]
    for number, value in enumerate(values):
        answer = ray.get(identity.remote(value))
        record(f"value {number}", answer)
        record(f"type {number}", type(answer).__name__)


@case
def bytearray_stays_one(record: Record) -> None:
    record.better(
        "type",
        type(ray.get(identity.remote(bytearray(b"abc")))).__name__,
        want="bytearray",
        why="Ray turns a bytearray into bytes",
    )


@case
def decorator_with_options(record: Record) -> None:
    @ray.remote(num_cpus=2, num_returns=2, max_retries=0)
    def two():
        return 1, 2

    refs = two.remote()
    record("refs", [type(ref).__name__ for ref in refs])
    record("values", ray.get(refs))


@case
def options_override_for_one_call_only(record: Record) -> None:
    @ray.remote
    def pair():
        return "a", "b"

    record("one", ray.get(pair.remote()))
    first, second = pair.options(num_returns=2).remote()
    record("first", ray.get(first))
    record("second", ray.get(second))
    record("still one", ray.get(pair.remote()))


@case
def num_returns_zero_one_and_many(record: Record) -> None:
    @ray.remote
    def several(n):
        return list(range(n))

    record("zero", several.options(num_returns=0).remote(0))
    record("one", ray.get(several.options(num_returns=1).remote(3)))
    record("many", ray.get(several.options(num_returns=5).remote(5)))


@case
def returned_generator_fills_the_declared_returns(record: Record) -> None:
    @ray.remote(num_returns=3)
    def squares():
        for n in range(3):
            yield n * n

    record("values", ray.get(list(squares.remote())))


@case
def remote_wraps_builtins_lambdas_and_classmethods(record: Record) -> None:
    record("lambda", ray.get(ray.remote(lambda x: x + 1).remote(1)))

    class Holder:
        @staticmethod
        def static(x):
            return x * 2

        @classmethod
        def of_class(cls, x):
            return cls.__name__, x

    record("static", ray.get(ray.remote(Holder.static).remote(4)))
    record("remote type", type(ray.remote(lambda: 0)).__name__)


@case
def closures_and_local_classes_travel(record: Record) -> None:
    offset = 7
    table = {"a": 1}

    class Point:
        def __init__(self, x, y):
            self.x = x
            self.y = y

    @ray.remote
    def shift(point):
        return Point(point.x + offset, point.y + table["a"])

    record("point", vars(ray.get(shift.remote(Point(1, 2)))))


@case
def captured_globals_are_taken_at_the_first_call(record: Record) -> None:
    state = {"n": 1}

    @ray.remote
    def read():
        return state["n"]

    record("first", ray.get(read.remote()))
    state["n"] = 2
    record("later", ray.get(read.remote()))


@case
def arguments_are_copies(record: Record) -> None:
    @ray.remote
    def append(items):
        items.append(4)
        return items

    items = [1, 2, 3]
    record("returned", ray.get(append.remote(items)))
    record("kept", items)


@case
def argument_is_taken_when_the_call_is_made(record: Record) -> None:
    items = [1]
    ref = identity.remote(items)
    items.append(2)
    record("value", ray.get(ref))


@case
def tasks_call_tasks(record: Record) -> None:
    @ray.remote
    def inner(x):
        return x + 1

    @ray.remote
    def outer(x):
        return sum(ray.get([inner.remote(x), inner.remote(x + 1)]))

    record("nested", ray.get([outer.remote(n) for n in range(5)]))


@case
def recursion_deeper_than_the_cpus(record: Record) -> None:
    @ray.remote
    def depth(n):
        return 0 if n == 0 else 1 + ray.get(depth.remote(n - 1))

    record("depth", ray.get(depth.remote(8)))


@ray.remote
def fibonacci(n):
    if n < 2:
        return n
    return sum(ray.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))


@case
def recursion_with_two_branches(record: Record) -> None:
    record("fibonacci", ray.get(fibonacci.remote(5)))


@case
def many_small_tasks_keep_their_order(record: Record) -> None:
    record("sum", ray.get([identity.remote(n) for n in range(500)]) == list(range(500)))


@case
def chain_of_dependent_tasks(record: Record) -> None:
    ref = add.remote(0, 0)
    for _ in range(50):
        ref = add.remote(ref, 1)
    record("end", ray.get(ref))


@case
def large_arguments_and_results(record: Record) -> None:
    data = bytes(range(256)) * 20_000
    record("bytes", ray.get(identity.remote(data)))
    record("list", len(ray.get(identity.remote(list(range(200_000))))))
    record("str", ray.get(identity.remote("x" * 1_000_000)))


@case
def wrapped_function_stays_reachable(record: Record) -> None:
    @ray.remote
    def plain(x):
        return x + 1

    record("type", type(plain).__name__)
    record("wrapped", plain._function(3))


@case
def named_task_and_metadata_options(record: Record) -> None:
    @ray.remote
    def who():
        return ray.get_runtime_context().get_task_name()

    record("default", ray.get(who.remote()).split(".")[-1])
    record("named", ray.get(who.options(name="custom-name").remote()))


@case
def remote_function_passed_to_a_task(record: Record) -> None:
    @ray.remote
    def call(function, value):
        return ray.get(function.remote(value))

    record("called", ray.get(call.remote(identity, 5)))


@case
def redefined_function_runs_as_redefined(record: Record) -> None:
    def make(n):
        @ray.remote
        def answer():
            return n

        return answer

    record("values", ray.get([make(n).remote() for n in range(5)]))


@case
def task_runs_in_another_process_with_same_modules(record: Record) -> None:
    @ray.remote
    def look():
        import os
        import sys
        import threading

        main = threading.current_thread() is threading.main_thread()
        return os.getpid(), sys.executable, main

    import os
    import sys

    pid, executable, in_main_thread = ray.get(look.remote())
    record("other process", pid != os.getpid())
    record("same python", executable == sys.executable)
    record("main thread", in_main_thread)


@case
def functions_of_the_script_belong_to_main(record: Record) -> None:
    @ray.remote
    def name():
        return __name__

    record("module name", ray.get(name.remote()))


main(globals())
