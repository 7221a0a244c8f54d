"""A small store that many processes fill: it says so, and everything comes back."""

from __future__ import annotations

import os
import re
import signal
import time
from types import ModuleType

import pytest

np = pytest.importorskip("numpy")

MB = 1024 * 1024
STORE = 100 * MB
"""The session's store."""


def ones(mb: int) -> object:
    return np.ones(mb * MB, dtype=np.uint8)


def used() -> int:
    from raymesh import _native

    return int(_native.describe_cluster()[0]["store_used"])


def wait_until_empty(rest: int = 0) -> None:
    """Memory that processes keep for their next objects goes back after some seconds, too."""
    patience = time.monotonic() + 30
    while used() > rest:
        assert time.monotonic() < patience, f"{used()} bytes of the store never come back"
        time.sleep(0.05)


def fill(ray: ModuleType, mb: int) -> tuple[list, str]:
    refs: list = []
    try:
        while True:
            refs.append(ray.put(ones(mb)))
    except ray.exceptions.ObjectStoreFullError as error:
        return refs, str(error)


def check_text(text: str, mb: int) -> None:
    wanted, free, capacity = map(int, re.findall(r"\d+", text)[:3])
    assert mb * MB <= wanted < (mb + 1) * MB, text
    assert free < wanted, text
    assert capacity == STORE, text
    assert "hint:" in text, text
    assert "object_store_memory" in text, text


def test_driver_and_workers_fill_the_store_in_turn(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def fill_there(mb: int) -> tuple[int, str]:
        refs, text = fill(ray, mb)
        return len(refs), text

    for mb in (3, 10, 30):
        refs, text = fill(ray, mb)
        assert len(refs) * mb >= 90 // mb * mb
        check_text(text, mb)
        del refs
        count, text = ray.get(fill_there.remote(mb), timeout=60)
        assert count * mb >= 90 // mb * mb
        check_text(text, mb)
    wait_until_empty()


def test_nothing_leaks_over_many_rounds_of_full_stores_and_kills(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    def make(mb: int) -> object:
        return ones(mb)

    @ray.remote
    def hold(refs: list) -> int:
        return sum(int(ray.get(ref)[-1]) for ref in refs)

    @ray.remote(max_retries=0)
    def fill_and_die() -> None:
        refs = [ray.put(ones(8)) for _ in range(3)]
        os.kill(os.getpid(), signal.SIGKILL)
        del refs

    @ray.remote
    def fill_there() -> int:
        return len(fill(ray, 7)[0])

    for number in range(200):
        mine = [ray.put(ones(5)) for _ in range(3)]
        made = [make.remote(5) for _ in range(4)]
        assert ray.get(hold.remote(mine + made), timeout=60) == 7
        if number % 10 == 3:
            with pytest.raises(ray.exceptions.WorkerCrashedError):
                ray.get(fill_and_die.remote(), timeout=60)
        if number % 10 == 7:
            assert ray.get(fill_there.remote(), timeout=60) >= 3
        del mine, made
    wait_until_empty()


def test_memory_of_a_killed_holder_is_there_for_the_next(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    class Filler:
        def fill(self) -> list:
            self.refs = [ray.put(ones(15)) for _ in range(5)]
            return self.refs[:1]

    for _ in range(5):
        filler = Filler.remote()
        borrowed = ray.get(filler.fill.remote(), timeout=60)
        ray.kill(filler)
        # The borrowed one may stay as long as it is held; the others go at once.
        big = ray.put(ones(75))
        del big, borrowed
    wait_until_empty()


def test_idle_process_keeps_no_memory_for_ever(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    ref = ray.put(ones(40))
    kept = ray.put(ones(1))
    del ref
    wait_until_empty(rest=8 * MB)
    assert int(ray.get(kept)[0]) == 1
