"""Owners and callers are killed: bytes that still exist stay readable, and what somebody holds is kept."""

from __future__ import annotations

import os
import signal
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.faults

MB = 1_000_000


def kill(ray: ModuleType, actor: Any) -> None:
    """`kill -9`, and wait until the caller knows."""
    os.kill(ray.get(actor.pid.remote()), signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.pid.remote())


def fill(ray: ModuleType, number: int) -> None:
    """Memory that was freed by mistake is overwritten."""
    written = [ray.put(np.full(5 * MB, 99, dtype=np.uint8)) for _ in range(number)]
    del written


def actors(ray: ModuleType) -> tuple[Any, Any]:
    """The classes of an owner and of a keeper."""

    @ray.remote(num_cpus=0)
    class Owner:
        def pid(self) -> int:
            return os.getpid()

        def make(self, size: int) -> list[Any]:
            self.kept = ray.put(np.full(size, 7, dtype=np.uint8))
            return [self.kept]

        def have_made(self, keeper: Any, size: int) -> list[Any]:
            self.kept = keeper.result.remote(size)
            ray.wait([self.kept], fetch_local=False)
            return [self.kept]

        def pass_on(self, inside: list[Any], keeper: Any) -> None:
            ray.get(keeper.hold_and_wait.remote(inside))

    @ray.remote(num_cpus=0, max_concurrency=3)
    class Keeper:
        def __init__(self) -> None:
            self.started, self.may_end = threading.Event(), threading.Event()

        def result(self, size: int) -> Any:
            return np.full(size, 7, dtype=np.uint8)

        def keep(self, inside: list[Any]) -> None:
            self.kept = inside[0]

        def hold_and_wait(self, inside: list[Any]) -> None:
            self.kept = inside[0]
            self.started.set()
            self.may_end.wait()

        def await_start(self) -> None:
            self.started.wait()

        def end(self) -> None:
            self.may_end.set()

        def read(self) -> int:
            return int(ray.get(self.kept).sum())

        def drop(self) -> None:
            del self.kept

    return Owner, Keeper


def test_unread_bytes_of_a_killed_owner_are_read(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    owner_class, _ = actors(ray)
    owner = owner_class.remote()
    [ref] = ray.get(owner.make.remote(5 * MB))
    kill(ray, owner)
    fill(ray, 10)
    assert int(ray.get(ref).sum()) == 7 * 5 * MB


def test_an_actor_reads_what_it_was_given_by_one_that_was_killed(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session
    owner_class, keeper_class = actors(ray)
    owner, keeper = owner_class.remote(), keeper_class.remote()
    ray.get(keeper.keep.remote(ray.get(owner.make.remote(5 * MB))))
    kill(ray, owner)
    fill(ray, 10)
    assert ray.get(keeper.read.remote()) == 7 * 5 * MB


def test_a_result_is_found_where_it_was_made_when_its_owner_was_killed(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session
    owner_class, keeper_class = actors(ray)
    owner, maker = owner_class.remote(), keeper_class.remote()
    [ref] = ray.get(owner.have_made.remote(maker, 5 * MB))
    kill(ray, owner)
    assert int(ray.get(ref).sum()) == 7 * 5 * MB


def test_a_small_value_dies_with_its_owner(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    owner_class, _ = actors(ray)
    owner = owner_class.remote()
    [ref] = ray.get(owner.make.remote(10))
    kill(ray, owner)
    with pytest.raises(ray.exceptions.OwnerDiedError):
        ray.get(ref, timeout=30)


def test_memory_of_a_killed_owner_is_free_when_its_last_reader_lets_go(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session
    owner_class, keeper_class = actors(ray)
    keeper = keeper_class.remote()
    for _ in range(4):
        owner = owner_class.remote()
        [ref] = ray.get(owner.make.remote(60 * MB))
        kill(ray, owner)
        ray.get(keeper.keep.remote([ref]))
        del ref
        assert ray.get(keeper.read.remote()) == 7 * 60 * MB
        # The store has 100 MiB: the next owner needs what this one leaves.
        ray.get(keeper.drop.remote())


def test_an_orphan_is_not_freed_under_the_last_of_those_who_passed_it_on(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session
    owner_class, keeper_class = actors(ray)
    owner, keeper = owner_class.remote(), keeper_class.remote()
    [ref] = ray.get(owner.make.remote(5 * MB))
    assert int(ray.get(ref)[0]) == 7
    kill(ray, owner)
    ray.get(keeper.keep.remote([ref]))
    del ref
    for _ in range(5):
        fill(ray, 10)
        assert ray.get(keeper.read.remote()) == 7 * 5 * MB


def test_what_a_killed_caller_passed_on_is_kept_for_who_got_it(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    owner_class, keeper_class = actors(ray)
    caller, keeper = owner_class.remote(), keeper_class.remote()
    pid = ray.get(caller.pid.remote())
    mine = ray.put([ray.put(np.full(5 * MB, 7, dtype=np.uint8))])
    [inner] = ray.get(mine)
    call = caller.pass_on.remote([inner], keeper)
    ray.get(keeper.await_start.remote())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(call)
    # Only the keeper has it now, and only the dead caller stood for it.
    del call, mine, inner
    for _ in range(5):
        fill(ray, 10)
        assert ray.get(keeper.read.remote()) == 7 * 5 * MB
    ray.get(keeper.end.remote())
    assert ray.get(keeper.read.remote()) == 7 * 5 * MB
