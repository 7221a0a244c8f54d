"""Math libraries use as many threads as the lease has CPUs, whether they were imported ahead or by the worker."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

from compat_tests.harness.program import Program

pytest.importorskip("numpy")
pytest.importorskip("threadpoolctl")

PROGRAM = """
    import os, sys
    import numpy, psutil
    if MODULE == "torch":
        import torch
    import raymesh as ray

    def pools():
        import numpy, threadpoolctl
        if MODULE == "torch":
            import torch
        found = {it["internal_api"]: it["num_threads"] for it in threadpoolctl.threadpool_info()}
        if MODULE == "torch":
            found["torch"] = torch.get_num_threads()
        return found, os.environ["OMP_NUM_THREADS"]

    task = ray.remote(pools)

    @ray.remote
    class Actor:
        def pools(self):
            return pools()

    ray.init(num_cpus=3, log_to_driver=False)
    if os.environ["RAYMESH_PRELOAD"] != "0":
        [cold] = [it for it in psutil.Process().children() if "_worker.zygote" in str(it.cmdline())]
        cold.wait(60)

    def show(name, answer):
        found, variable = answer
        assert found, "no library found"
        print(name, sorted(set(found.values())), variable, flush=True)

    for cpus in (1, 2, 1):
        show(f"task-{cpus}", ray.get(task.options(num_cpus=cpus).remote()))
    show("actor-default", ray.get(Actor.remote().pools.remote()))
    threaded = Actor.options(num_cpus=2, max_concurrency=3).remote()
    for answer in ray.get([threaded.pools.remote() for _ in range(6)]):
        show("actor-2", answer)
"""


def start(program: Callable[..., Program], module: str) -> Program:
    return program(f"    MODULE = {module!r}\n" + PROGRAM)


@pytest.fixture(params=["numpy", "torch"])
def module(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"needs {name}")
    return name


@pytest.mark.parametrize("ahead", [True, False], ids=["imported ahead", "imported by the worker"])
def test_threads_follow_the_cpus_of_the_lease(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch, module: str, ahead: bool
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("RAYMESH_PRELOAD", module if ahead else "0")
    running = start(program, module)
    for cpus in (1, 2, 1):
        assert running.expect(f"task-{cpus}") == f"[{cpus}] {cpus}"
    assert running.expect("actor-default") == "[1] 1"
    for _ in range(6):
        assert running.expect("actor-2") == "[2] 2"
    assert running.wait() == 0


@pytest.mark.parametrize("ahead", [True, False], ids=["imported ahead", "imported by the worker"])
def test_variables_of_the_user_are_left_alone(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    monkeypatch.setenv("RAYMESH_PRELOAD", "numpy" if ahead else "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    running = start(program, "numpy")
    assert running.expect("task-1") == "[1] 1"
    assert running.expect("task-2") == "[1] 1"
    assert running.wait() == 0


def test_the_variable_of_one_library_is_left_alone(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("RAYMESH_PRELOAD", "numpy")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    running = start(program, "numpy")
    assert running.expect("task-1") == "[1] 1"
    assert running.expect("task-2") == "[1] 2"
    assert running.wait() == 0
