"""Processes that keep the cores busy while others are measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BUSY_PROCESSES = 8
# Ends by itself when its standard input closes, so it cannot outlive the benchmark.
_LOOP = (
    "import sys, threading, os\n"
    "threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()\n"
    "while True: sum(range(1000))\n"
)


@contextmanager
def busy_machine(count: int = BUSY_PROCESSES) -> Iterator[None]:
    """Keep `count` processes computing for as long as the block runs."""
    started = [
        subprocess.Popen([sys.executable, "-c", _LOOP], stdin=subprocess.PIPE) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
