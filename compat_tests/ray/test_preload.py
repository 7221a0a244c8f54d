"""Modules that the program has imported are there in its workers, also in those that were started before."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.harness.program import Program

SLOW = """
    import os, sys
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "slow_module.py"), "w") as module:
        module.write("import time\\ntime.sleep(0.5)\\n")
    sys.path.insert(0, here)
    import psutil
    import slow_module
    import raymesh as ray

    def zygotes():
        children = psutil.Process().children()
        return [it for it in children if "_worker.zygote" in " ".join(it.cmdline())]

    def wait_for_the_warm_one():
        [cold] = zygotes()
        cold.wait(60)
        print("zygotes", len(zygotes()), flush=True)

    @ray.remote
    def knows():
        return "slow_module" in sys.modules
"""


def test_spare_workers_are_replaced_by_those_that_have_the_modules(
    program: Callable[..., Program], monkeypatch
) -> None:
    monkeypatch.setenv("RAYMESH_PRELOAD", "slow_module")
    running = program(
        SLOW
        + """
    ray.init(num_cpus=2)
    wait_for_the_warm_one()
    print("know", ray.get([knows.remote() for _ in range(4)]), flush=True)
    print("done", flush=True)
    """
    )
    assert running.expect("zygotes") == "1"
    assert running.expect("know") == "[True, True, True, True]"
    running.expect("done")


def test_actors_get_the_modules_too(program: Callable[..., Program], monkeypatch) -> None:
    monkeypatch.setenv("RAYMESH_PRELOAD", "slow_module")
    running = program(
        SLOW
        + """
    @ray.remote
    class Knows:
        def knows(self):
            return "slow_module" in sys.modules

    ray.init(num_cpus=2)
    wait_for_the_warm_one()
    actors = [Knows.remote() for _ in range(2)]
    print("know", ray.get([it.knows.remote() for it in actors]), flush=True)
    """
    )
    assert running.expect("zygotes") == "1"
    assert running.expect("know") == "[True, True]"


def test_what_the_program_uses_of_the_standard_library_is_there(
    program: Callable[..., Program],
) -> None:
    running = program(
        """
    import sys, time
    import decimal, raymesh as ray
    ray.init(num_cpus=1)

    @ray.remote(num_cpus=0)
    class Fresh:
        def knows(self, name):
            return name in sys.modules

    def known(name):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if ray.get(Fresh.remote().knows.remote(name)):
                return True
        return False

    print("before", known("decimal"), flush=True)
    import fractions

    @ray.remote
    def later():
        return 1

    ray.get(later.remote())
    print("since", known("fractions"), flush=True)
    print("done", flush=True)
    """
    )
    assert running.expect("before") == "True"
    assert running.expect("since") == "True"
    running.expect("done")
