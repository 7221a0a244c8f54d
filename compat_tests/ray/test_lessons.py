"""What users of Ray report, and raymesh is to answer better. Each test names the fault it guards."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import psutil
import pytest

from compat_tests.harness.program import Program


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class FixedArgs(Exception):
    @property
    def args(self):  # type: ignore[override]
        return ("fixed",)


class Holding(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        import threading

        self.lock = threading.Lock()


def failure(ray: ModuleType, ref: object) -> Exception:
    with pytest.raises(ray.exceptions.RayError) as caught:
        ray.get(ref, timeout=30)
    return caught.value


def test_class_with_keyword_only_constructor_arrives_with_its_fields(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    def fail() -> None:
        raise KeywordOnly(code=7)

    error = failure(ray, fail.remote())
    assert isinstance(error, KeywordOnly)
    assert error.code == 7


def test_class_with_read_only_args_arrives(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def fail() -> None:
        raise FixedArgs

    assert isinstance(failure(ray, fail.remote()), FixedArgs)


def test_error_that_cannot_be_pickled_still_tells_type_text_and_place(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    def fail_here() -> None:
        raise Holding

    text = str(failure(ray, fail_here.remote()))
    for word in ("Holding", "holds a lock", "fail_here"):
        assert word in text


def test_keyboard_interrupt_of_user_code_is_not_a_cancellation(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(max_retries=0)
    def interrupt() -> None:
        raise KeyboardInterrupt("by the user's code")

    error = failure(ray, interrupt.remote())
    assert not isinstance(error, ray.exceptions.TaskCancelledError)
    assert "KeyboardInterrupt" in str(error)


def test_failed_input_at_the_root_of_a_long_chain_is_one_traceback(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    def root() -> int:
        raise ValueError("at the root")

    @ray.remote
    def link(value: int) -> int:
        return value

    ref = root.remote()
    for _ in range(60):
        ref = link.remote(ref)
    text = str(failure(ray, ref))
    assert text.count("ValueError: at the root") == 1
    assert len(text.splitlines()) < 30


def test_failed_input_fails_the_call_before_the_others_are_there(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Gate:
        async def never(self) -> None:
            import asyncio

            await asyncio.Event().wait()

    @ray.remote
    def bad() -> int:
        raise ValueError("early")

    @ray.remote
    def both(a: int, b: int) -> int:
        return a + b

    gate = Gate.remote()
    assert "early" in str(failure(ray, both.remote(bad.remote(), gate.never.remote())))


def test_crash_names_signal_task_process_and_last_output(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(max_retries=0)
    def doomed(path: str) -> None:
        import signal

        with open(path, "w") as out:
            out.write(str(os.getpid()))
        print("my last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    import tempfile

    with tempfile.NamedTemporaryFile("r") as pid_file:
        text = str(failure(ray, doomed.remote(pid_file.name)))
        pid = pid_file.read()
    for word in ("SIGKILL", "doomed", pid, "my last words"):
        assert word in text


def test_get_actor_names_the_namespace_that_was_searched(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Named:
        def ok(self) -> None: ...

    actor = Named.options(name="here", namespace="one").remote()
    ray.get(actor.ok.remote())
    with pytest.raises(ValueError, match="here") as caught:
        ray.get_actor("here", namespace="two")
    assert "two" in str(caught.value)
    assert "one" in str(caught.value)


def test_get_if_exists_from_many_threads_makes_one_actor(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Single:
        def pid(self) -> int:
            return os.getpid()

    def ask(_: int) -> int:
        actor = Single.options(name="single", get_if_exists=True, lifetime="detached").remote()
        return ray.get(actor.pid.remote())

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(24)))) == 1


def test_handle_to_oneself_does_not_keep_an_actor_alive(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Selfish:
        def keep(self) -> int:
            self.me = ray.get_runtime_context().current_actor
            return os.getpid()

    actor = Selfish.remote()
    process = psutil.Process(ray.get(actor.keep.remote()))
    del actor
    _, alive = psutil.wait_procs([process], timeout=10)
    assert not alive


def test_atexit_functions_of_an_actor_run_at_its_orderly_end(
    raymesh_session: ModuleType, tmp_path
) -> None:
    ray = raymesh_session
    mark = tmp_path / "mark"

    @ray.remote(num_cpus=0)
    class Tidy:
        def __init__(self, path: str) -> None:
            import atexit

            atexit.register(lambda: open(path, "w").close())

        def pid(self) -> int:
            return os.getpid()

    actor = Tidy.remote(str(mark))
    process = psutil.Process(ray.get(actor.pid.remote()))
    del actor
    psutil.wait_procs([process], timeout=10)
    assert mark.exists()


def test_module_edited_and_reloaded_in_the_driver_runs_as_edited(
    program: Callable[..., Program],
) -> None:
    running = program(
        """
        import importlib, os, sys
        import raymesh as ray

        sys.dont_write_bytecode = True
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "edited_module.py")

        def write(text):
            with open(path, "w") as module:
                module.write(f"def answer():\\n    return {text!r}\\n")
            importlib.invalidate_caches()

        write("first")
        import edited_module

        print("answer", ray.get(ray.remote(edited_module.answer).remote()), flush=True)
        write("second version")
        importlib.reload(edited_module)
        print("answer", ray.get(ray.remote(edited_module.answer).remote()), flush=True)
        """
    )
    assert running.expect("answer") == "first"
    assert running.expect("answer") == "second version"
    assert running.wait() == 0


def test_get_with_timeout_zero_answers_at_once(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Gate:
        async def never(self) -> None:
            import asyncio

            await asyncio.Event().wait()

    ref = Gate.remote().never.remote()
    for _ in range(100):
        with pytest.raises(ray.exceptions.GetTimeoutError):
            ray.get(ref, timeout=0)


def test_pending_argument_holds_up_no_call_of_another_caller(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self) -> None:
            import asyncio

            self.opened = asyncio.Event()

        async def passed(self) -> int:
            await self.opened.wait()
            return 1

        async def open(self) -> None:
            self.opened.set()

    @ray.remote(num_cpus=0)
    class Callee:
        def call(self, value: object = None) -> object:
            return value

    @ray.remote(num_cpus=0)
    def other_caller(callee) -> object:
        return ray.get(callee.call.remote("other"))

    gate, callee = Gate.remote(), Callee.remote()
    held = callee.call.remote(gate.passed.remote())
    assert ray.get(other_caller.remote(callee), timeout=30) == "other"
    ray.get(gate.open.remote())
    assert ray.get(held) == 1


def test_idle_worker_that_crashes_is_replaced_without_a_failed_task(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    def pid() -> int:
        return os.getpid()

    for _ in range(5):
        worker = psutil.Process(ray.get(pid.remote()))
        worker.kill()
        psutil.wait_procs([worker], timeout=10)
    assert ray.get(pid.remote()) > 0
