"""A small program that a test starts on raymesh, talks to by lines, and may kill."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil

from compat_tests.harness.systems import System, end_leftovers, new_run_id, processes_of

WATCHDOG_S = 60.0


class Program:
    """A running program, its output by lines, and the processes that belong to it."""

    def __init__(self, process: subprocess.Popen[str], run_id: str) -> None:
        self.process = process
        self.run_id = run_id
        self.seen: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def start(
        cls,
        source: str,
        path: Path,
        *,
        command: Sequence[str] | None = None,
        own_group: bool = True,
    ) -> Program:
        """Write the source to `path` and run it on raymesh, or run `command` instead."""
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        run_id = new_run_id()
        process = subprocess.Popen(
            list(command) if command else [sys.executable, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=System.RAYMESH.environment(run_id),
            start_new_session=own_group,
        )
        return cls(process, run_id)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line.rstrip("\n"))
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def expect(self, start: str) -> str:
        """The rest of the next line that begins with `start`; lines before it are skipped."""
        while True:
            try:
                line = self._lines.get(timeout=WATCHDOG_S)
            except queue.Empty:
                line = None
            assert line is not None, f"no line {start!r} in:\n" + "\n".join(self.seen)
            if line.startswith(start):
                return line[len(start) :].strip()

    def say(self, line: str) -> None:
        """Send a line to the program's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End the program's own process with SIGKILL, as the kernel does when memory runs out."""
        self.process.kill()
        self.process.wait(WATCHDOG_S)

    def interrupt(self) -> None:
        """Ctrl-C in a terminal: SIGINT to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self) -> int:
        """Its exit status."""
        return self.process.wait(WATCHDOG_S)

    def family(self) -> list[psutil.Process]:
        """All living processes of the program."""
        return processes_of(self.run_id)

    def gone(self) -> list[str]:
        """Waits for every process of the program to end; those that stay, in words."""
        return end_leftovers(self.run_id, grace_s=5.0)

    def end(self) -> None:
        """End whatever still runs and close the pipes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WATCHDOG_S)
        end_leftovers(self.run_id, grace_s=2.0)
        self._reader.join(WATCHDOG_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
