"""In a notebook: cells that define, define again, await, are interrupted; a kernel that restarts leaves nothing behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from compat_tests.harness.systems import System, end_leftovers, new_run_id, processes_of

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")

# zmq and jupyter_client have event loops of their own, which they leave to the collector.
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

WATCHDOG_S = 60.0


class Cell:
    """A cell that runs or has run: what it printed, what it is worth, what it raised."""

    def __init__(self, client: Any, code: str) -> None:
        self.client = client
        self.request = client.execute(code)
        self.printed = ""
        self.value: str | None = None
        self.error: str | None = None
        self.ended = False

    def take(self) -> None:
        """One message of the kernel; those of other cells are skipped."""
        message = self.client.get_iopub_msg(timeout=WATCHDOG_S)
        if message["parent_header"].get("msg_id") != self.request:
            return
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            self.printed += content["text"]
        elif kind == "execute_result":
            self.value = content["data"]["text/plain"]
        elif kind == "error":
            self.error = content["ename"]
        elif kind == "status" and content["execution_state"] == "idle":
            self.ended = True

    def until_ended(self) -> Cell:
        while not self.ended:
            self.take()
        return self

    def until_printed(self, text: str) -> Cell:
        deadline = time.monotonic() + WATCHDOG_S
        while text not in self.printed:
            assert time.monotonic() < deadline, self.printed
            self.take()
        return self


class Notebook:
    """A kernel and its client."""

    def __init__(self, folder: Path) -> None:
        self.run_id = new_run_id()
        self.kernel = manager.KernelManager()
        arguments = ["--HistoryManager.enabled=False"]
        self.kernel.start_kernel(
            cwd=str(folder),
            env={**System.RAYMESH.environment(self.run_id), "IPYTHONDIR": str(folder)},
            extra_arguments=arguments,
        )
        self.client = self.kernel.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WATCHDOG_S)

    def cell(self, code: str) -> Cell:
        return self.start(code).until_ended()

    def start(self, code: str) -> Cell:
        return Cell(self.client, code)

    def restart(self) -> None:
        self.kernel.restart_kernel(now=True)
        self.client.wait_for_ready(timeout=WATCHDOG_S)

    def end(self) -> list[str]:
        """Ends it; what stays of it, in words."""
        self.client.stop_channels()
        self.kernel.shutdown_kernel(now=True)
        return end_leftovers(self.run_id, grace_s=5.0)


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    opened = Notebook(tmp_path)
    opened.cell("import raymesh as ray\nray.init(num_cpus=2)")
    yield opened
    left = opened.end()
    assert not left, f"left behind: {left}"


def test_functions_and_classes_of_cells_may_be_defined_again(notebook: Notebook) -> None:
    notebook.cell("@ray.remote\ndef scale(n):\n    return factor * n\n\nfactor = 2")
    assert notebook.cell("ray.get(scale.remote(4))").value == "8"
    # A function is taken along when it is first called, with the globals as they were then: as in Ray.
    notebook.cell("@ray.remote\ndef scale(n):\n    return factor * n\n\nfactor = 3")
    assert notebook.cell("ray.get(scale.remote(4))").value == "12"

    notebook.cell(
        "@ray.remote\nclass Counter:\n    step = 1\n    def __init__(self): self.n = 0\n"
        "    def add(self): self.n += self.step; return self.n"
    )
    assert notebook.cell("old = Counter.remote(); ray.get(old.add.remote())").value == "1"
    notebook.cell(
        "@ray.remote\nclass Counter:\n    def __init__(self): self.n = 0\n"
        "    def add(self): self.n += 10; return self.n"
    )
    both = notebook.cell("new = Counter.remote(); ray.get([old.add.remote(), new.add.remote()])")
    assert both.value == "[2, 10]", "an actor keeps the class that it was made of"


def test_top_level_await(notebook: Notebook) -> None:
    notebook.cell("import asyncio\n@ray.remote\ndef double(n):\n    return 2 * n")
    assert notebook.cell("await double.remote(4)").value == "8"
    gathered = notebook.cell("await asyncio.gather(*[double.remote(n) for n in range(3)])")
    assert gathered.value == "[0, 2, 4]"
    # The loop is the kernel's: it has to go on while a cell waits in `get`, and after it.
    assert notebook.cell("ray.get(double.remote(5))").value == "10"
    assert notebook.cell("await double.remote(6)").value == "12"


def test_prints_of_tasks_appear_in_the_cell_that_runs(notebook: Notebook) -> None:
    notebook.cell("@ray.remote\ndef say(text):\n    print('worker says', text)")
    for text in ("one", "two"):
        # Lines may come after the end of the cell: they are shown in the one that ran last.
        notebook.cell(f"ray.get(say.remote({text!r}))").until_printed(f"worker says {text}")


def test_errors_of_tasks_are_shown_and_the_session_goes_on(notebook: Notebook) -> None:
    notebook.cell("@ray.remote\ndef fail():\n    raise KeyError('missing')")
    assert notebook.cell("ray.get(fail.remote())").error == "RayTaskError(KeyError)"
    assert notebook.cell("ray.get(ray.put(1))").value == "1"


def test_interrupted_get_raises_and_the_session_goes_on(notebook: Notebook) -> None:
    notebook.cell(
        "import time\n@ray.remote\nclass Slow:\n    def pid(self): import os; return os.getpid()\n"
        "    def nap(self): time.sleep(600)\nslow, other = Slow.remote(), Slow.remote()\n"
        "ray.get(other.pid.remote())"
    )
    for _ in range(2):
        waiting = notebook.start("print('waiting', flush=True)\nray.get(slow.nap.remote())")
        waiting.until_printed("waiting")
        notebook.kernel.interrupt_kernel()
        assert waiting.until_ended().error == "KeyboardInterrupt"
    assert notebook.cell("ray.get(other.pid.remote()) > 0").value == "True"


def test_restarted_kernel_leaves_nothing_of_the_old_one(notebook: Notebook) -> None:
    notebook.cell(
        "@ray.remote\nclass Holder:\n    def hold(self): return 1\n"
        "holder = Holder.options(name='held').remote(); ray.get(holder.hold.remote())"
    )
    old = processes_of(notebook.run_id)
    assert "raymesh-worker" in {process.name() for process in old}
    notebook.restart()
    _, alive = psutil.wait_procs(old, timeout=10)
    assert not alive, "processes of the old kernel are still there"
    found = notebook.cell(
        "import raymesh as ray\nray.init(num_cpus=1)\nray.util.list_named_actors(True)"
    )
    assert found.value == "[]"
