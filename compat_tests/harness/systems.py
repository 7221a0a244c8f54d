"""How a program is started on each system, and what is done about processes that it leaves behind."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import psutil

from compat_tests.harness.case import SYSTEM_VARIABLE
from compat_tests.harness.discover import ROOT

RUN_VARIABLE = "COMPAT_RUN"
"""Marks every process of one run, so that what is left of it can be found by its environment."""


class System(Enum):
    """The two systems a program can run on."""

    RAY = "ray"
    RAYMESH = "raymesh"

    def command(self, program: Path, arguments: Iterable[str] = ()) -> list[str]:
        """The command line that runs a Ray program on this system."""
        runner = [] if self is System.RAY else ["-m", "raymesh", "run"]
        return [sys.executable, *runner, str(program), *arguments]

    def environment(self, run_id: str) -> dict[str, str]:
        """The environment of the program; `run_id` marks all its processes."""
        quiet = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "PYTHONUNBUFFERED": "1",
        }
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        own = {RUN_VARIABLE: run_id, SYSTEM_VARIABLE: self.value, "PYTHONPATH": path}
        if self is System.RAY:
            # `init()` would join whatever Ray cluster somebody else runs on this machine.
            own["RAY_ADDRESS"] = "local"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        return {**inherited, **quiet, **own}


def new_run_id() -> str:
    """A mark that no other run has."""
    return uuid.uuid4().hex


def processes_of(run_id: str) -> list[psutil.Process]:
    """The living processes that carry the mark of a run, this one excepted."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if (
                process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get(RUN_VARIABLE) == run_id
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def end_leftovers(run_id: str, *, grace_s: float) -> list[str]:
    """Wait for the processes of a run to go, kill those that stay; returns their names and pids."""
    _, alive = psutil.wait_procs(processes_of(run_id), timeout=grace_s)
    left = []
    for process in alive:
        try:
            left.append(f"{process.name()} ({process.pid})")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=10)
    return left
