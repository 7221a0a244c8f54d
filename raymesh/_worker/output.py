"""Standard output and error of a worker: pipes to the agent, written at once.

The agent shows each line with the name of the task or actor that printed it. The name costs nothing
per task: ``set_name`` only stores it, and a stream says it in front of each line, with a record that
the agent filters out.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

#: Starts a record; the name and a newline follow. Known to rust/runtime/src/agent/output.rs.
MARK = b"\x00\x1braymesh-name:"

_name = ""


def set_name(name: str) -> None:
    """Lines printed from now on belong to ``name`` (a task's or an actor class's)."""
    global _name
    _name = name


class _Stream(io.FileIO):
    """A pipe to the agent. Says before each line who prints it."""

    at_line_start = True

    def write(self, data: Any, /) -> int:
        body = bytes(data)
        if not body:
            return 0
        record = MARK + _name.encode("utf-8", "replace").replace(b"\n", b" ") + b"\n"
        last = body.endswith(b"\n")
        # One write for all, so that a child that prints to the same pipe does not come in between.
        rest = (body[:-1] if last else body).replace(b"\n", b"\n" + record)
        rest = (record if self.at_line_start else b"") + rest + (b"\n" if last else b"")
        while rest:
            rest = rest[os.write(self.fileno(), rest) :]
        self.at_line_start = last
        return len(body)


def open_streams() -> None:
    """Make ``sys.stdout`` and ``sys.stderr`` unbuffered writers to fds 1 and 2."""
    sys.stdout = sys.__stdout__ = _text(1, "<stdout>", "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(2, "<stderr>", "backslashreplace")  # type: ignore[misc]


def flush_streams() -> None:
    """Write out what is buffered, also a last line without its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed or replaced by user code, or the agent is gone


def _text(fd: int, name: str, errors: str) -> io.TextIOWrapper:
    raw = _Stream(fd, "w", closefd=False)
    raw.name = name
    # Nothing is kept back: what was written before a crash is shown, also without an end of line.
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)
