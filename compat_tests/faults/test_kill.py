"""Kills driver, workers and zygote: nothing outlives them, and the survivors learn of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil
import pytest

from compat_tests.harness.program import Program

pytestmark = pytest.mark.faults

Start = Callable[..., Program]

BUSY_SESSION = """
import os, sys, time
import numpy as np
import raymesh as ray

@ray.remote
class Actor:
    def pid(self):
        return os.getpid()

    def hold(self):
        time.sleep(600)

@ray.remote(num_cpus=0)
def sleeping():
    time.sleep(600)

ray.init(num_cpus=2, object_store_memory=100_000_000)
actors = [Actor.options(num_cpus=0).remote() for _ in range(3)]
print("pids", *ray.get([actor.pid.remote() for actor in actors]), flush=True)
kept = [ray.put(np.ones(1_000_000)) for _ in range(3)]
running = [actor.hold.remote() for actor in actors] + [sleeping.remote()]
print("ready", flush=True)
"""


def test_killed_driver_leaves_no_process_and_no_shared_memory(program: Start) -> None:
    before = set(os.listdir("/dev/shm"))
    running = program(BUSY_SESSION + "ray.get(running)\n")
    running.expect("ready")
    assert len(running.family()) >= 4
    running.kill()
    assert running.gone() == []
    assert set(os.listdir("/dev/shm")) <= before


def test_orderly_end_leaves_nothing_though_tasks_run(program: Start) -> None:
    ended = program(BUSY_SESSION)
    ended.expect("ready")
    assert ended.wait() == 0
    assert ended.gone() == []


def test_terminated_driver_leaves_nothing(program: Start) -> None:
    running = program(BUSY_SESSION + "ray.get(running)\n")
    running.expect("ready")
    running.process.terminate()
    running.wait()
    assert running.gone() == []


def test_children_of_a_killed_worker_go_with_it(program: Start) -> None:
    running = program(
        """
        import os, subprocess, time
        import raymesh as ray

        @ray.remote(max_retries=0)
        def parent():
            child = subprocess.Popen(["sleep", "600"])
            print("never mind", child.pid)
            with open(PATH, "w") as f:
                f.write(f"{os.getpid()} {child.pid}")
            time.sleep(600)

        PATH = os.path.abspath(__file__) + ".pids"
        ray.init(num_cpus=1)
        ref = parent.remote()
        while not (os.path.exists(PATH) and len(open(PATH).read().split()) == 2):
            time.sleep(0.01)
        print("pids", open(PATH).read(), flush=True)
        try:
            ray.get(ref)
        except ray.exceptions.WorkerCrashedError:
            print("crashed", flush=True)
        input()
        """
    )
    worker, child = map(int, running.expect("pids").split())
    spawned = psutil.Process(child)
    os.kill(worker, signal.SIGKILL)
    running.expect("crashed")
    _, alive = psutil.wait_procs([spawned], timeout=5)
    assert not alive, "the worker's child still runs"


def test_killed_actor_is_noticed_by_a_waiting_caller(program: Start) -> None:
    running = program(
        """
        import os, time
        import raymesh as ray

        @ray.remote
        class Actor:
            def pid(self):
                return os.getpid()

            def hold(self):
                time.sleep(600)

        ray.init(num_cpus=1)
        actor = Actor.remote()
        print("pid", ray.get(actor.pid.remote()), flush=True)
        held = actor.hold.remote()
        try:
            ray.get(held)
        except ray.exceptions.ActorDiedError as error:
            print("told", "SIGKILL" in str(error), flush=True)
        """
    )
    os.kill(int(running.expect("pid")), signal.SIGKILL)
    assert running.expect("told") == "True", "the message has to name the signal"
    assert running.wait() == 0


def test_actor_that_waits_learns_that_another_was_killed(program: Start) -> None:
    running = program(
        """
        import os, time
        import raymesh as ray

        @ray.remote(num_cpus=0)
        class Callee:
            def pid(self):
                return os.getpid()

            def hold(self):
                time.sleep(600)

        @ray.remote(num_cpus=0)
        class Caller:
            def call(self, callee):
                try:
                    ray.get(callee.hold.remote())
                except ray.exceptions.ActorDiedError:
                    return "learned"

        ray.init(num_cpus=1)
        callee = Callee.remote()
        pid = ray.get(callee.pid.remote())
        ref = Caller.remote().call.remote(callee)
        print("pid", pid, flush=True)
        print(ray.get(ref), flush=True)
        """
    )
    os.kill(int(running.expect("pid")), signal.SIGKILL)
    running.expect("learned")


def test_memory_held_by_a_killed_worker_goes_back(program: Start) -> None:
    running = program(
        """
        import os
        import numpy as np
        import raymesh as ray

        @ray.remote(num_cpus=0)
        class Holder:
            def hold(self):
                self.refs = [ray.put(np.ones(5_000_000, dtype=np.uint8)) for _ in range(10)]
                return os.getpid()

        ray.init(num_cpus=1, object_store_memory=80_000_000)
        for round in range(5):
            holder = Holder.remote()
            pid = ray.get(holder.hold.remote())
            os.kill(pid, 9)
            try:
                ray.get(holder.hold.remote())
            except ray.exceptions.ActorDiedError:
                pass
        print("done", flush=True)
        """
    )
    running.expect("done")
    assert running.wait() == 0


def test_killed_zygote_is_replaced_or_named(program: Start) -> None:
    running = program(
        """
        import os
        import raymesh as ray

        @ray.remote
        def pid():
            return os.getpid(), os.getppid()

        @ray.remote(num_cpus=0)
        class Actor:
            def ok(self):
                return "ok"

        ray.init(num_cpus=2)
        worker, parent = ray.get(pid.remote())
        assert parent != os.getpid()
        print("zygote", parent, flush=True)
        input()
        try:
            answer = ray.get(Actor.remote().ok.remote())
        except ray.exceptions.ActorDiedError as error:
            # It lived in a worker that was about to end with its zygote.
            assert "SIGKILL" in str(error)
            answer = ray.get(Actor.remote().ok.remote())
        print("after", answer, ray.get(pid.remote())[0] > 0, flush=True)
        """
    )
    os.kill(int(running.expect("zygote")), signal.SIGKILL)
    running.say("go on")
    assert running.expect("after") == "ok True"
    assert running.wait() == 0
    assert running.gone() == []


def test_no_zombies_after_many_crashes(program: Start) -> None:
    running = program(
        """
        import os
        import psutil
        import raymesh as ray

        @ray.remote(max_retries=0)
        def crash():
            os._exit(1)

        ray.init(num_cpus=2)
        for _ in range(10):
            try:
                ray.get(crash.remote())
            except ray.exceptions.WorkerCrashedError:
                pass
        family = psutil.Process().children(recursive=True)
        print("zombies", sum(p.status() == "zombie" for p in family), flush=True)
        """
    )
    assert int(running.expect("zombies")) <= 1  # the last one may still be on its way
    assert running.wait() == 0
