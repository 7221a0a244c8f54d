"""Memory and CPU time of the processes of this program's session, as the kernel counts them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from compat_tests.harness.systems import RUN_VARIABLE, processes_of


def memory_of(pid: int) -> float:
    """Proportional set size of a process in MB: shared pages count in parts. 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def cpu_of(pid: int) -> float:
    """CPU seconds of the living threads of a process, to the nanosecond: a tick is far too coarse
    for a process that does next to nothing. So is reading files, for the process that asks."""
    if pid == os.getpid():
        return time.process_time()
    used = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            used += int(thread.read_text(encoding="ascii").split()[0])
        except (OSError, IndexError):
            continue
    return used / 1e9


def session_pids() -> list[int]:
    """All processes of this program's session, itself first."""
    run_id = os.environ.get(RUN_VARIABLE, "")
    return [psutil.Process().pid, *(process.pid for process in processes_of(run_id))]


def memory_by_process() -> dict[int, float]:
    """MB of each process of the session, by pid."""
    return {pid: memory_of(pid) for pid in session_pids()}


def cpu_by_process(pids: Iterable[int]) -> dict[int, float]:
    """CPU seconds that each of these processes has used, by pid."""
    return {pid: cpu_of(pid) for pid in pids}


def growth(before: dict[int, float], after: dict[int, float]) -> float:
    """By how much the processes that were there all the time have grown together."""
    return sum(after[pid] - before[pid] for pid in before.keys() & after.keys())
