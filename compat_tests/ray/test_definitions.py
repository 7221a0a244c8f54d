"""Functions and classes are kept as long as something needs them, and no longer."""

from __future__ import annotations

import gc
import os
from types import ModuleType

BLOB = 200_000
"""Bytes that each closure captures."""

MB = 1 << 20


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_closures_that_are_gone_take_no_memory_in_driver_or_workers(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    def run_one(number: int, through_options: bool) -> int:
        blob = os.urandom(BLOB)

        @ray.remote
        def closure() -> tuple[int, int]:
            return resident(), number + len(blob)

        function = closure.options(max_retries=0) if through_options else closure
        size, answer = ray.get(function.remote())
        assert answer == number + BLOB
        return size

    start = run_one(0, False)
    here = resident()
    # Garbage collection must not be what frees them: nothing here is a circle.
    gc.disable()
    try:
        most = max(run_one(number, number % 2 == 1) for number in range(1_500))
    finally:
        gc.enable()
    assert resident() - here < 60 * MB, "300 MB of closures were made"
    assert most - start < 150 * MB


def test_classes_of_dead_actors_take_no_memory(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    def run_one(number: int) -> None:
        blob = os.urandom(20 * BLOB)

        @ray.remote(num_cpus=0)
        class Holder:
            def get(self) -> int:
                return number + len(blob)

        assert ray.get(Holder.remote().get.remote()) == number + 20 * BLOB

    run_one(0)
    gc.collect()
    here = resident()
    for number in range(40):
        run_one(number)
    gc.collect()
    assert resident() - here < 60 * MB, "160 MB of classes were made"


def test_same_function_comes_back_after_it_was_forgotten(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    def double(value: int) -> int:
        return 2 * value

    for number in range(50):
        assert ray.get(ray.remote(double).remote(number)) == 2 * number


def test_function_is_there_for_calls_that_outlive_it(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self) -> None:
            self.tries = 0

        def next(self) -> int:
            self.tries += 1
            return self.tries

    gate = Gate.remote()

    def submit() -> list[object]:
        @ray.remote(max_retries=2)
        def dies_once(gate: object, number: int) -> int:
            if ray.get(gate.next.remote()) == 1:  # type: ignore[attr-defined]
                os._exit(1)
            return number

        return [dies_once.remote(gate, number) for number in range(20)]

    assert ray.get(submit(), timeout=60) == list(range(20))


def test_class_is_there_for_actors_that_restart(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    def create() -> object:
        @ray.remote(max_restarts=1, max_task_retries=1)
        class Phoenix:
            def pid(self) -> int:
                return os.getpid()

            def die(self) -> None:
                os._exit(1)

        return Phoenix.remote()

    actor = create()
    gc.collect()
    first = ray.get(actor.pid.remote())  # type: ignore[attr-defined]
    os.kill(first, 9)
    assert ray.get(actor.pid.remote(), timeout=60) != first  # type: ignore[attr-defined]


def test_function_made_inside_a_task_is_there_for_what_the_task_started(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    def outer(number: int) -> object:
        blob = bytes(BLOB)

        @ray.remote
        def inner() -> int:
            return number + len(blob)

        # The reference goes out, and the function with this task.
        return [inner.remote()]

    for number in range(10):
        (inner,) = ray.get(outer.remote(number))
        assert ray.get(inner, timeout=60) == number + BLOB


def test_worker_that_has_met_very_many_functions_asks_again(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    blobs = [bytes([number]) * (4 * MB) for number in range(24)]

    def make(blob: bytes) -> object:
        @ray.remote
        def first() -> int:
            return blob[0]

        return first

    functions = [make(blob) for blob in blobs]
    for _ in range(2):
        answers = [ray.get(function.remote()) for function in functions]  # type: ignore[attr-defined]
        assert answers == list(range(24))
