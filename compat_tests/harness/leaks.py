"""Finds what a test left behind in this process: children, threads, file descriptors, shared memory."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

PATIENCE_S = 5.0
"""Watchdog: what is on its way out may take that long to be gone."""

_WATCHDOG = "pytest_timeout"
"""The thread that watches a test: what several tests share ends under another one than it began under."""


@dataclass(frozen=True)
class Belongings:
    """What this process has at one moment."""

    children: frozenset[int]
    threads: frozenset[int]
    """Native ids, so that the runtime's own threads count too."""
    descriptors: frozenset[tuple[int, str]]
    shared_memory: frozenset[str]
    """Names in /dev/shm and mapped memfds."""

    @classmethod
    def now(cls) -> Belongings:
        """Take stock."""
        gc.collect()
        process = psutil.Process()
        return cls(
            frozenset(child.pid for child in process.children(recursive=True)),
            frozenset(int(task) for task in os.listdir("/proc/self/task")),
            frozenset(_descriptors()),
            frozenset(_shared_memory()),
        )

    def beyond(self, before: Belongings) -> list[str]:
        """What is here now and was not before, in words."""
        found = [f"process {_process_name(pid)}" for pid in self.children - before.children]
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        found += [
            f"thread {names.get(task) or _thread_name(task)}"
            for task in self.threads - before.threads
            if not names.get(task, "").startswith(_WATCHDOG)
        ]
        found += [f"fd {number} -> {to}" for number, to in self.descriptors - before.descriptors]
        found += [f"shared memory {name}" for name in self.shared_memory - before.shared_memory]
        return sorted(found)


def _descriptors() -> list[tuple[int, str]]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def _shared_memory() -> list[str]:
    mapped = {
        line.split(maxsplit=5)[5].strip()
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        if "memfd:" in line
    }
    return [*mapped, *os.listdir("/dev/shm")]


def _process_name(pid: int) -> str:
    try:
        return f"{pid} {' '.join(psutil.Process(pid).cmdline())[:80]}"
    except psutil.Error:
        return str(pid)


def _thread_name(task: int) -> str:
    try:
        return Path(f"/proc/self/task/{task}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return str(task)


def leaked_since(before: Belongings, *, patience_s: float = PATIENCE_S) -> list[str]:
    """What stays behind; gives things on their way out the time of the watchdog to go."""
    return settled(lambda: Belongings.now().beyond(before), patience_s=patience_s)


def settled(look: Callable[[], list[str]], *, patience_s: float) -> list[str]:
    """Look until nothing is found any more, or until the watchdog's time is over."""
    deadline = time.monotonic() + patience_s
    while (found := look()) and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    return found
