"""The package is light: what `import raymesh` brings in, and what its commands answer."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

HEAVY = (
    *("numpy", "torch", "ray", "click", "rich", "psutil", "cloudpickle"),
    *("asyncio", "concurrent", "dataclasses", "inspect", "json", "logging", "multiprocessing"),
    *("platform", "socket", "ssl", "subprocess", "traceback", "uuid"),
)
"""What `import raymesh` leaves to the programs that use it: it is to take no longer than a moment."""

OF_PYTHON = ("math", "pickle", "re", "struct", "threading", "typing")
"""Modules of the standard library that raymesh imports and that have compiled parts."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_import_brings_in_nothing_heavy() -> None:
    code = f"import raymesh, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_import_loads_no_library_beside_its_own() -> None:
    """Not CUDA, not RDMA, nothing that a machine may lack: what more is needed is opened at run time."""
    code = (
        "import sys\n"
        "mapped = lambda: {l.split()[-1] for l in open('/proc/self/maps') if '.so' in l}\n"
        f"for name in {OF_PYTHON!r}: __import__(name)\n"
        "before = mapped()\n"
        "import raymesh\n"
        "print([p.rpartition('/')[2].partition('.')[0] for p in sorted(mapped() - before)])"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert set(ast.literal_eval(done.stdout)) <= {"_native", "libgcc_s"}


def test_import_starts_no_thread_and_no_process() -> None:
    code = (
        "import os, raymesh;"
        "print(len(os.listdir('/proc/self/task')),"
        " open('/proc/self/task/%d/children' % os.getpid()).read().split())"
    )
    assert run("-c", code).stdout.strip() == "1 []"


def test_works_where_ray_numpy_and_torch_are_missing() -> None:
    code = (
        "import sys\n"
        "for name in ('ray', 'numpy', 'torch', 'psutil', 'click', 'rich'): sys.modules[name] = None\n"
        "import raymesh\n"
        "@raymesh.remote\n"
        "def f(x): return x + 1\n"
        "print(raymesh.get(f.remote(1)))\n"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["doctor"], ["run", "--help"], ["--version"]], ids=str
)
def test_commands_answer(arguments: list[str]) -> None:
    done = run("-m", "raymesh", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_doctor_names_what_this_machine_offers() -> None:
    text = run("-m", "raymesh", "doctor").stdout.lower()
    for word in ("cores", "memory", "futex", "pidfd", "rdma", "gpu"):
        assert word in text, word


def test_wrong_command_says_which_there_are() -> None:
    done = run("-m", "raymesh", "misspelt")
    assert done.returncode != 0
    assert "misspelt" in done.stderr
