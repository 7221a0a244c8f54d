"""Processes that a dead worker leaves behind: finding and ending them.

The zygote is the subreaper of everything below it, so whatever loses its parent becomes the
zygote's own child. Every child that is no worker was therefore started by some worker; whose it
was, its session or its environment tells.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable

#: In the environment of a worker, and of what it starts: the worker's process id.
MARK = "RAYMESH_WORKER_PID"


def children(pid: int) -> list[int]:
    """Direct children of ``pid`` (of all its threads), also dead ones not reaped yet."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        # The process has just ended, or the kernel was built without this file.
        return [child for child in _all() if _stat(child)[1] == str(pid).encode()]
    return found


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, parents before their children."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found += children(child)
    return found


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # gone already


def kill_all_below(pid: int) -> None:
    """End every descendant of the calling process ``pid``, also those forked meanwhile."""
    while living := [child for child in descendants(pid) if _stat(child)[0] not in b"ZX"]:
        kill(living)
        _reap_all()


def left_behind(adopted: Iterable[int], workers: Collection[int]) -> list[int]:
    """Those of the processes ``adopted`` whose worker is known and not among ``workers``."""
    left = []
    for pid in adopted:
        try:
            origins = {os.getsid(pid), _marked(pid)}
        except OSError:
            continue  # gone already
        # Neither tells of a process that was forked, not executed, and left its session: such a
        # one may belong to a living worker, and stays until the zygote ends.
        known = {origin for origin in origins if origin not in (None, pid, os.getsid(0))}
        if known and known.isdisjoint(workers):
            left.append(pid)
    return left


def _marked(pid: int) -> int | None:
    """The worker in whose environment ``pid`` was started, as far as can be seen."""
    prefix = f"{MARK}=".encode()
    with open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            if entry.startswith(prefix) and entry[len(prefix) :].isdigit():
                return int(entry[len(prefix) :])
    return None


def _stat(pid: int) -> tuple[bytes, bytes]:
    """State and parent of ``pid``; of one that is gone as of a dead one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return b"X", b""
    return fields[0], fields[1]


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _reap_all() -> None:
    """Wait for one child to end, then take whatever else has ended."""
    options = 0
    while True:
        try:
            pid, _ = os.waitpid(-1, options)
        except ChildProcessError:
            return
        if pid == 0:
            return
        options = os.WNOHANG
