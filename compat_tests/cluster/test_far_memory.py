"""Memory that processes of several hosts share: it stays while somebody needs it, and comes back after that."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raymesh as ray

Start = Callable[..., Any]

ONE = {"resources": {"one": 10}}
TWO = {"resources": {"two": 10}, "object_store_memory": 200 << 20}
SMALL = {"resources": {"small": 10}, "object_store_memory": 100 << 20}


@ray.remote(num_cpus=0)
class Maker:
    def make(self, size: int, value: int) -> np.ndarray[Any, Any]:
        return np.full(size, value, dtype=np.uint8)

    def pid(self) -> int:
        return os.getpid()

    def keep(self, box: list[Any]) -> None:
        self.box = box

    def kept(self) -> set[int]:
        return set(np.unique(ray.get(self.box[0])).tolist())

    def interrupt(self, box: list[Any], after: float) -> bool:
        """Whether reading was interrupted."""

        def stop(*_: Any) -> None:
            raise InterruptedError

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            ray.get(box[0])
        except InterruptedError:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


def on(resource: str) -> Any:
    return Maker.options(resources={resource: 1}).remote()


def gone(pid: int) -> None:
    """Waits for the end of a process."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    assert select.select([descriptor], [], [], 60)[0]
    os.close(descriptor)


@pytest.mark.faults
@pytest.mark.parametrize("killed", [True, False])
def test_what_an_actor_made_is_never_overwritten_after_its_end(
    cluster: Start, killed: bool
) -> None:
    cluster(ONE, TWO)
    one, two = on("one"), on("two")
    made = two.make.remote(50 << 20, 7)
    ray.get(one.keep.remote([made]))
    ray.wait([made])
    pid = ray.get(two.pid.remote())
    if killed:
        os.kill(pid, signal.SIGKILL)
    del two
    gone(pid)
    other = on("two")
    for _ in range(3):
        # Long enough for the memory of the dead one to be given away.
        filled = [other.make.remote(50 << 20, 9) for _ in range(2)]
        assert len(ray.wait(filled, num_returns=2, timeout=60)[0]) == 2
        del filled
    assert set(np.unique(ray.get(made)).tolist()) == {7}
    assert ray.get(one.kept.remote()) == {7}
    # And it comes back: all of the host's memory is to be had again.
    ray.get(one.keep.remote([None]))
    del made
    assert len(ray.get(other.make.remote(190 << 20, 1), timeout=60)) == 190 << 20


@pytest.mark.faults
def test_a_reader_that_is_killed_keeps_nothing_of_a_dead_actor(cluster: Start) -> None:
    cluster(ONE, TWO)
    one, two = on("one"), on("two")
    made = two.make.remote(120 << 20, 7)
    ray.get(one.keep.remote([made]))
    pids = ray.get([two.pid.remote(), one.pid.remote()])
    os.kill(pids[0], signal.SIGKILL)
    gone(pids[0])
    assert ray.get(one.kept.remote()) == {7}
    os.kill(pids[1], signal.SIGKILL)
    del made
    assert len(ray.get(on("two").make.remote(190 << 20, 1), timeout=60)) == 190 << 20


def test_reading_that_is_interrupted_takes_no_memory(cluster: Start) -> None:
    cluster(ONE, TWO, SMALL)
    two, small = on("two"), on("small")
    interrupted = 0
    for _ in range(12):
        box = [two.make.remote(30 << 20, 5)]
        ray.wait(box)
        interrupted += ray.get(small.interrupt.remote(box, 0.003))
        # Goes on where the first reading was interrupted.
        ray.get(small.keep.remote(box))
        assert ray.get(small.kept.remote()) == {5}
        ray.get(small.keep.remote([None]))
    assert interrupted >= 4, "the machine is too quick for this test"
