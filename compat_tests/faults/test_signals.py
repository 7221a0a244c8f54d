"""Ctrl-C, user handlers, fork: harmless."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.harness.program import Program

pytestmark = pytest.mark.faults

Start = Callable[..., Program]

HEAD = """
import os, signal, sys, threading, time
import raymesh as ray

@ray.remote(num_cpus=0)
class Actor:
    def __init__(self):
        self.calls = 0

    def call(self):
        self.calls += 1
        return self.calls

    def hold(self):
        time.sleep(600)

ray.init(num_cpus=2)
actor, slow = Actor.remote(), Actor.remote()
ray.get([actor.call.remote(), slow.call.remote()])
"""


def test_ctrl_c_during_get_raises_and_leaves_the_workers_alive(program: Start) -> None:
    running = program(
        HEAD
        + """
held = slow.hold.remote()
try:
    print("waiting", flush=True)
    ray.get(held)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("next", ray.get(actor.call.remote()), flush=True)
"""
    )
    running.expect("waiting")
    running.interrupt()
    running.expect("interrupted")
    assert running.expect("next") == "2", "the actor has to keep its state"
    assert running.wait() == 0
    assert running.gone() == []


def test_ctrl_c_during_wait_raises(program: Start) -> None:
    running = program(
        HEAD
        + """
held = slow.hold.remote()
try:
    print("waiting", flush=True)
    ray.wait([held])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    )
    running.expect("waiting")
    running.interrupt()
    running.expect("interrupted")
    assert running.wait() == 0


def test_uncaught_ctrl_c_ends_the_program_and_its_workers(program: Start) -> None:
    running = program(
        HEAD + "held = slow.hold.remote()\nprint('waiting', flush=True)\nray.get(held)\n"
    )
    running.expect("waiting")
    running.interrupt()
    assert running.wait() != 0
    assert running.gone() == []


def test_handler_set_before_init_stays(program: Start) -> None:
    running = program(
        """
        import signal
        import raymesh as ray

        def handler(number, frame):
            print("own handler", flush=True)

        signal.signal(signal.SIGINT, handler)
        signal.signal(signal.SIGTERM, handler)
        ray.init(num_cpus=1)
        print("kept", signal.getsignal(signal.SIGINT) is handler,
              signal.getsignal(signal.SIGTERM) is handler, flush=True)
        """
    )
    assert running.expect("kept") == "True True"
    assert running.wait() == 0


def test_fork_in_the_driver_is_harmless(program: Start) -> None:
    running = program(
        HEAD
        + """
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    print("pool", pool.map(abs, [-1, -2]), flush=True)
print("next", ray.get(actor.call.remote()), flush=True)
"""
    )
    assert running.expect("pool") == "[1, 2]"
    assert running.expect("next") == "2"
    assert running.wait() == 0
    assert running.gone() == []


def test_multiprocessing_and_subprocess_inside_workers(program: Start) -> None:
    running = program(
        """
        import raymesh as ray

        @ray.remote
        def work():
            import multiprocessing
            import subprocess

            with multiprocessing.get_context("fork").Pool(2) as pool:
                values = pool.map(abs, [-1, -2, -3])
            return values, subprocess.check_output(["echo", "hello"], text=True).strip()

        ray.init(num_cpus=1)
        print("values", *ray.get(work.remote()), flush=True)
        """
    )
    assert running.expect("values") == "[1, 2, 3] hello"
    assert running.wait() == 0


def test_exception_in_the_driver_ends_it_with_its_traceback(program: Start) -> None:
    running = program(HEAD + "raise ValueError('of the driver')\n")
    assert running.wait() == 1
    assert any("ValueError: of the driver" in line for line in running.seen)
    assert running.gone() == []


def test_sys_exit_status_is_kept(program: Start) -> None:
    running = program(HEAD + "sys.exit(5)\n")
    assert running.wait() == 5
    assert running.gone() == []


@pytest.mark.parametrize("inner", ["cloudpickle.cloudpickle", "raymesh.exceptions"])
def test_handler_that_makes_ray_calls_while_ray_imports(program: Start, inner: str) -> None:
    """The handler runs in the middle of the module that imports `inner`, and needs that module."""
    running = program(
        f"INNER = {inner!r}\n"
        """
import signal, sys
import raymesh as ray

@ray.remote
def f(x):
    return x

@ray.remote
class Actor:
    def fail(self):
        raise KeyError("x")

ran, wrong = [], []

def handler(*_):
    ran.append(1)
    try:
        assert ray.get(f.options(name="in a handler").remote(lambda: 1))() == 1
        assert ray.get(ray.put({f: 1})) is not None
        assert ray.put(2).future().result() == 2
        assert ray.get_runtime_context().get_job_id()
        try:
            ray.get(Actor.remote().fail.remote())
        except KeyError:
            pass
    except BaseException as error:
        wrong.append(repr(error))

signal.signal(signal.SIGUSR1, handler)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == INNER:
            signal.raise_signal(signal.SIGUSR1)

assert INNER not in sys.modules
sys.meta_path.insert(0, Interrupt())
ray.init(num_cpus=2)
print("first", ray.get(f.remote(lambda: 1))(), flush=True)
try:
    ray.get(Actor.remote().fail.remote())
except KeyError:
    pass
print("job", ray.get_runtime_context().get_job_id(), flush=True)
print("ran", len(ran), wrong, flush=True)
"""
    )
    assert running.expect("first") == "1"
    assert running.expect("ran") == "1 []"
    assert running.wait() == 0
    assert running.gone() == []


def test_handler_that_makes_ray_calls_in_the_middle_of_init_is_told_so(program: Start) -> None:
    running = program(
        """
import signal
import raymesh as ray
from raymesh import _native

def handler(*_):
    try:
        ray.put(1)
    except RuntimeError as error:
        print("told", "in the middle of init()" in str(error), flush=True)

signal.signal(signal.SIGUSR1, handler)
start = _native.start_driver

def start_driver(**options):
    signal.raise_signal(signal.SIGUSR1)
    return start(**options)

_native.start_driver = start_driver
ray.init(num_cpus=1)
print("then", ray.get(ray.put(2)), ray.cluster_resources()["CPU"], flush=True)
"""
    )
    assert running.expect("told") == "True"
    assert running.expect("then") == "2 1.0"
    assert running.wait() == 0


def test_ctrl_c_while_another_thread_waits_too(program: Start) -> None:
    """The thread that came first reads the mail for both; Ctrl-C is for the main thread, which came second."""
    running = program(
        HEAD
        + """
started = threading.Event()

def wait():
    started.set()
    try:
        ray.get(first)
    except ray.exceptions.RayError:
        print("released", flush=True)

first, second = slow.hold.remote(), slow.hold.remote()
thread = threading.Thread(target=wait)
thread.start()
started.wait()
ray.get(actor.call.remote())
try:
    print("waiting", flush=True)
    ray.get(second)
except KeyboardInterrupt:
    print("interrupted", flush=True)
ray.kill(slow)
thread.join()
"""
    )
    running.expect("waiting")
    running.interrupt()
    running.expect("interrupted")
    running.expect("released")
    assert running.wait() == 0
    assert running.gone() == []


def test_signal_at_any_moment_of_a_wait_is_seen(program: Start) -> None:
    """Most of all one that comes when the wait has begun, and the kernel has not been asked to sleep."""
    running = program(
        HEAD
        + """
class Alarm(Exception):
    pass

def ring(*_):
    raise Alarm

signal.signal(signal.SIGALRM, ring)
held = slow.hold.remote()
seen = 0
for n in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, (5 + n) * 1e-6)
        ray.get(held)
    except Alarm:
        seen += 1
print("seen", seen, flush=True)
"""
    )
    assert running.expect("seen") == "300"
    assert running.wait() == 0
