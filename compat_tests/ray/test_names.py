"""A name gives one actor, never one that is being collected; who found it holds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest


def named_class(ray: ModuleType) -> Callable[..., object]:
    @ray.remote(num_cpus=0)
    class Named:
        def pid(self) -> int:
            return os.getpid()

    return Named.options  # type: ignore[no-any-return]


def test_found_actor_outlives_the_handle_of_its_creator(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    options = named_class(ray)
    made = options(name="kept").remote()  # type: ignore[attr-defined]
    pid = ray.get(made.pid.remote())
    found = ray.get_actor("kept")
    del made
    # Whatever ends the actor would have been said before this answer.
    with pytest.raises(ValueError, match="nobody"):
        ray.get_actor("nobody")
    assert ray.get(found.pid.remote(), timeout=30) == pid
    pidfd = os.pidfd_open(pid)
    del found
    wait_for_end(pidfd)


def test_found_actor_outlives_the_task_that_found_it_if_that_passes_it_on(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session
    options = named_class(ray)
    made = options(name="passed").remote()  # type: ignore[attr-defined]
    pid = ray.get(made.pid.remote())

    @ray.remote
    def find() -> object:
        return ray.get_actor("passed")

    found = ray.get(find.remote())
    del made
    for _ in range(20):
        assert ray.get(found.pid.remote(), timeout=30) == pid


def test_actor_that_looks_itself_up_is_not_kept_by_that(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Narcissus:
        def look(self) -> int:
            self.me = ray.get_actor("narcissus")
            return os.getpid()

    actor = Narcissus.options(name="narcissus").remote()
    pidfd = os.pidfd_open(ray.get(actor.look.remote()))
    del actor
    wait_for_end(pidfd)


def wait_for_end(pidfd: int) -> None:
    import select

    try:
        assert select.select([pidfd], [], [], 30)[0], "the actor lives on"
    finally:
        os.close(pidfd)


def test_get_if_exists_from_many_threads_never_gives_an_actor_that_is_being_collected(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session
    options = named_class(ray)
    barrier = threading.Barrier(8)

    def use(_: int) -> list[int]:
        pids = []
        for _ in range(25):
            barrier.wait(60)
            # All handles of a round go at once while the next round begins.
            handle = options(name="shared", get_if_exists=True).remote()  # type: ignore[attr-defined]
            pids.append(ray.get(handle.pid.remote(), timeout=60))
            del handle
        return pids

    with ThreadPoolExecutor(8) as pool:
        assert all(len(pids) == 25 for pids in pool.map(use, range(8)))


def test_one_actor_for_all_who_hold_it_at_the_same_time(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    options = named_class(ray)

    def get(_: int) -> object:
        return options(name="single", get_if_exists=True).remote()  # type: ignore[attr-defined]

    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(get, range(40)))
    assert len(set(ray.get([handle.pid.remote() for handle in handles]))) == 1  # type: ignore[attr-defined]


def test_get_if_exists_from_two_processes_never_gives_an_actor_that_is_being_collected(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Shared:
        def pid(self) -> int:
            return os.getpid()

    @ray.remote(num_cpus=0)
    class User:
        def use(self, rounds: int) -> int:
            for _ in range(rounds):
                handle = Shared.options(name="between", get_if_exists=True).remote()
                ray.get(handle.pid.remote(), timeout=60)
                del handle
            return rounds

        def find(self, rounds: int) -> int:
            found = 0
            for _ in range(rounds):
                try:
                    handle = ray.get_actor("between")
                except ValueError:
                    continue
                ray.get(handle.pid.remote(), timeout=60)
                found += 1
            return found

    users = [User.remote() for _ in range(3)]
    made = [user.use.remote(60) for user in users[:2]]
    found = users[2].find.remote(300)
    assert ray.get(made, timeout=120) == [60, 60]
    assert ray.get(found, timeout=120) >= 0
