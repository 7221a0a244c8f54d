"""The package is light: what `import raymesh` brings in, and what its commands answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "torch", "ray", "click", "rich", "asyncio", "multiprocessing", "psutil")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_import_brings_in_nothing_heavy() -> None:
    code = f"import raymesh, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


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
