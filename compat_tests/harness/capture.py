"""Catches everything that reaches file descriptors 1 and 2, also from threads that are not Python's."""

from __future__ import annotations

import os
import re
import sys
import threading
from types import TracebackType

from compat_tests.harness.describe import normalize

_END = "\x00end of capture\x00\n"


class Capture:
    """Context manager that diverts stdout and stderr into memory and lets one wait for a line."""

    def __init__(self) -> None:
        self._text = ""
        self._changed = threading.Condition()
        self._saved: list[int] = []
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Capture:
        read_end, write_end = os.pipe()
        _flush()
        self._saved = [os.dup(1), os.dup(2)]
        os.dup2(write_end, 1)
        os.dup2(write_end, 2)
        os.close(write_end)
        self._reader = threading.Thread(target=self._drain, args=(read_end,), daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _flush()
        # All that was written before this has been read once this has.
        os.write(1, _END.encode())
        with self._changed:
            self._changed.wait_for(lambda: _END in self._text, 20.0)
            self._text = self._text.replace(_END, "")
        for target, saved in zip((1, 2), self._saved, strict=True):
            os.dup2(saved, target)
            os.close(saved)
        # A worker that inherited the pipe keeps it open: do not wait for the end of the stream.

    def _drain(self, read_end: int) -> None:
        while chunk := os.read(read_end, 65536):
            with self._changed:
                self._text += chunk.decode(errors="replace")
                self._changed.notify_all()
        os.close(read_end)

    def wait_for(self, pattern: str, *, times: int = 1, timeout_s: float = 20.0) -> bool:
        """Wait until the output matches `pattern` so many times; False if it does not in time."""

        def seen() -> bool:
            return len(re.findall(pattern, normalize(self._text))) >= times

        with self._changed:
            return self._changed.wait_for(seen, timeout_s)

    def lines(self, pattern: str) -> list[str]:
        """The normalized lines that match `pattern`, in the order of their arrival."""
        with self._changed:
            lines = normalize(self._text).splitlines()
        return [line.rstrip() for line in lines if re.search(pattern, line)]


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
