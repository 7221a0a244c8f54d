"""What the death of a worker says, and which calls pay for it."""

from __future__ import annotations

import os
import signal
from types import ModuleType

import psutil
import pytest


def test_only_the_call_that_ran_pays_for_a_crash(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(max_retries=0)
    def maybe(number: int, victim: int) -> int:
        if number == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    # From now on calls are sent ahead of their turn, dozens to a worker.
    ray.get([maybe.remote(number, -1) for number in range(300)])
    for victim in (0, 30, 299):
        refs = [maybe.remote(number, victim) for number in range(300)]
        for number, ref in enumerate(refs):
            if number == victim:
                with pytest.raises(ray.exceptions.WorkerCrashedError):
                    ray.get(ref, timeout=30)
            else:
                assert ray.get(ref, timeout=30) == number


def test_call_sent_to_a_killed_idle_worker_runs_elsewhere(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(max_retries=0)
    def pid() -> int:
        return os.getpid()

    for _ in range(30):
        worker = psutil.Process(ray.get(pid.remote(), timeout=30))
        worker.kill()
        assert ray.get(pid.remote(), timeout=30) != worker.pid


def test_last_failed_attempt_tells_which_it_was(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(max_retries=2)
    def leave() -> None:
        os._exit(7)

    with pytest.raises(ray.exceptions.WorkerCrashedError) as caught:
        ray.get(leave.options(name="leaver").remote(), timeout=30)
    for words in ("leaver", "3rd time", "exited with code 7", "hint:"):
        assert words in str(caught.value)


def test_dead_actor_shows_its_last_output(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    class Doomed:
        def crash(self) -> None:
            print("about to crash", flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(Doomed.remote().crash.remote(), timeout=30)
    for words in ("Doomed", "SIGSEGV", "about to crash"):
        assert words in str(caught.value)
