"""What happens at the limits of the system and of Python, and what is said about it."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable
from types import ModuleType

import pytest

from compat_tests.harness.program import Program


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def depth_of(value: list[object]) -> int:
    depth = 0
    while value:
        (value,) = value  # type: ignore[assignment]
        depth += 1
    return depth


def test_lists_nested_as_deep_as_ray_takes_them_arrive(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def deeper(value: list[object]) -> list[object]:
        return [value]

    assert depth_of(ray.get(ray.put(nested(1023)))) == 1023
    assert depth_of(ray.get(deeper.remote(nested(1022)))) == 1023


def test_value_nested_too_deep_says_so(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def make() -> list[object]:
        return nested(100_000)

    for fails in (lambda: ray.put(nested(100_000)), lambda: ray.get(make.remote(), timeout=30)):
        with pytest.raises(pickle.PicklingError, match="nested too deeply") as caught:
            fails()
        assert "hint:" in str(caught.value)
    assert ray.get(ray.put(1)) == 1


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 13),
    reason="pickle.dumps() alone overflows such a stack: 3.13 has a fixed limit for recursion in C",
)
def test_deep_value_does_not_overflow_a_small_stack(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    outcome: list[object] = []

    def put() -> None:
        try:
            outcome.append(ray.put(nested(1_500)))
        except pickle.PicklingError as error:
            outcome.append(error)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=put)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert isinstance(outcome[0], pickle.PicklingError)


def test_error_of_a_dead_actor_names_the_method_whose_call_failed(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    class Fragile:
        def shatter(self) -> None:
            os._exit(3)

        def after(self) -> None:
            pass

    actor = Fragile.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="`shatter` had been called"):
        ray.get(actor.shatter.remote(), timeout=30)
    with pytest.raises(ray.exceptions.ActorDiedError, match="`after` was not called"):
        ray.get(actor.after.remote(), timeout=30)


def test_limit_of_open_files_stops_new_actors_and_kills_none(
    program: Callable[..., Program],
) -> None:
    running = program("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        import raymesh as ray

        ray.init(num_cpus=2, log_to_driver=False)

        @ray.remote(num_cpus=0)
        class Actor:
            def pid(self):
                import os
                return os.getpid()

        actors = [Actor.remote() for _ in range(60)]
        refs = [actor.pid.remote() for actor in actors]
        first = ray.get(refs[0])
        try:
            ray.get(refs, timeout=10)
        except ray.exceptions.GetTimeoutError as error:
            print("said:", str(error).replace(chr(10), " "), flush=True)
        alive, waiting = ray.wait(refs, num_returns=len(refs), timeout=0)
        print("alive:", len(alive), flush=True)
        print("same:", ray.get(actors[0].pid.remote()) == first, flush=True)
        import json.tool  # a module that was not imported yet
        last = actors[-1].pid.remote()
        del actors
        print("last:", ray.get(last, timeout=50) > 0, flush=True)
    """)
    said = running.expect("said:")
    for words in ("too many open files", "the limit is 128", "ulimit -Hn"):
        assert words in said
    assert 10 <= int(running.expect("alive:")) < 60
    assert running.expect("same:") == "True"
    assert running.expect("last:") == "True"
