"""At the prompt of an interactive Python, on a real terminal: definitions, prints of workers, Ctrl-C, Ctrl-D."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from compat_tests.harness.systems import System, end_leftovers, new_run_id

WATCHDOG_S = 60.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """A terminal in which an interactive interpreter runs."""

    def __init__(self) -> None:
        self.run_id = new_run_id()
        self.text = ""
        self.master, slave = pty.openpty()
        # The plain prompt: that of Python 3.13 paints, and waits for answers of the terminal.
        environment = {**System.RAYMESH.environment(self.run_id), "PYTHON_BASIC_REPL": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-q", "-i", "-c", TERMINAL_IS_OURS],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)

    def say(self, line: str) -> None:
        """Type a line."""
        os.write(self.master, line.encode() + b"\n")

    def press(self, key: bytes) -> None:
        os.write(self.master, key)

    def expect(self, pattern: str) -> re.Match[str]:
        """Waits for output that matches, and takes all up to its end."""
        deadline = time.monotonic() + WATCHDOG_S
        while not (found := re.search(pattern, self.text, re.MULTILINE)):
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.master], [], [], left)[0]
            assert ready, f"no {pattern!r} in:\n{self.text}"
            try:
                more = os.read(self.master, 65536)
            except OSError:  # nobody has the other end any more
                more = b""
            assert more, f"ended without {pattern!r} in:\n{self.text}"
            self.text += ESCAPES.sub("", more.decode(errors="replace")).replace("\r", "")
        self.text = self.text[found.end() :]
        return found

    def end(self) -> list[str]:
        """Ends it; what stays of it, in words."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WATCHDOG_S)
        os.close(self.master)
        return end_leftovers(self.run_id, grace_s=5.0)


TERMINAL_IS_OURS = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
del fcntl, termios
"""
"""Ctrl-C is sent to those whose terminal it is."""


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    opened.expect(">>> ")
    opened.say("import raymesh as ray; _ = ray.init(num_cpus=2)")
    opened.expect(">>> ")
    yield opened
    left = opened.end()
    assert not left, f"left behind: {left}"


def test_session_at_the_prompt(terminal: Terminal) -> None:
    terminal.say("@ray.remote\ndef double(n):\n    print('doubles', n)\n    return 2 * n\n")
    terminal.say("'is %d' % ray.get(double.remote(21))")
    terminal.expect(r"^'is 42'")
    terminal.say("def triple(n): return 3 * n\n")
    terminal.say("'is %d' % ray.get(ray.remote(triple).remote(21))")
    terminal.expect(r"^'is 63'")
    # Before the prompt is there, the terminal would keep the key as a line's end, which no prompt sees.
    terminal.expect(">>> ")
    terminal.press(b"\x04")
    assert terminal.process.wait(WATCHDOG_S) == 0


def test_prints_of_workers_reach_the_terminal(terminal: Terminal) -> None:
    terminal.say("ray.get(ray.remote(lambda: print('from a ' + 'worker')).remote())")
    terminal.expect(r"pid=\d+\) from a worker")


def test_ctrl_c_gives_the_prompt_back_and_the_session_goes_on(terminal: Terminal) -> None:
    terminal.say("import threading, time")
    terminal.say("nap = ray.remote(num_cpus=0)(lambda: time.sleep(600)).remote()")
    for _ in range(2):
        terminal.say("print('wait' + 'ing', flush=True); ray.get(nap)")
        terminal.expect(r"^waiting$")
        terminal.press(b"\x03")
        terminal.expect(r"^KeyboardInterrupt")
        terminal.expect(">>> ")
    terminal.say("'is %d' % ray.get(ray.remote(lambda: 7).remote())")
    terminal.expect(r"^'is 7'")
