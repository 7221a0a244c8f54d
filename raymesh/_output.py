"""What workers print, shown in the driver.

`Folder` decides which lines are shown now, later, or together with equal ones; it has no clock and
prints nothing. `Printer` is the thread that feeds it and writes to what `sys.stdout` and
`sys.stderr` are at that moment (under pytest and in notebooks they change).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from raymesh import _native

if TYPE_CHECKING:
    import re


class Line(NamedTuple):
    """A line of a worker; `times` > 1: of several, this being the last of them.

    `ip` is that of another host; empty: of this one.
    """

    name: str
    pid: int
    is_stderr: bool
    text: str
    ip: str = ""
    times: int = 1


class _Seen:
    """A line that was shown a moment ago."""

    def __init__(self, line: Line, now: float) -> None:
        self.since = now
        self.pids = {line.pid}
        self.last = line
        self.held = 0
        """How often it came again, from several processes, since it was shown."""


class Folder:
    """Shows a line at once, and what other processes repeat of it once more, with a count.

    Only lines that are equal to the last character are folded. Lines that one process alone
    repeats are all shown.
    """

    def __init__(
        self,
        *,
        window: float = 5.0,
        enabled: bool = True,
        allow: re.Pattern[str] | None = None,
        skip: re.Pattern[str] | None = None,
    ) -> None:
        self._window = window
        self._enabled = enabled
        self._allow = allow
        self._skip = skip
        self._seen: dict[tuple[bool, str], _Seen] = {}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Folder:
        """As Ray's variables ask for."""
        return cls(
            window=float(environ.get("RAY_DEDUP_LOGS_AGG_WINDOW_S", "5")),
            enabled=environ.get("RAY_DEDUP_LOGS", "1") not in ("0", ""),
            allow=_pattern(environ.get("RAY_DEDUP_LOGS_ALLOW_REGEX")),
            skip=_pattern(environ.get("RAY_DEDUP_LOGS_SKIP_REGEX")),
        )

    def feed(self, line: Line, now: float) -> list[Line]:
        """What to show on arrival of `line`."""
        text = line.text
        if not self._enabled or not text.strip() or (self._allow and self._allow.search(text)):
            return [line]
        if self._skip and self._skip.search(text):
            return []
        shown = self.due(now)
        key = (line.is_stderr, text)
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = _Seen(line, now)
            shown.append(line)
            return shown
        seen.pids.add(line.pid)
        if len(seen.pids) == 1:
            shown.append(line)
        else:
            seen.held += 1
            seen.last = line
        return shown

    def due(self, now: float) -> list[Line]:
        """What was held back for long enough."""
        shown = []
        # In order of `since`: the first that is young ends the search.
        while self._seen:
            key = next(iter(self._seen))
            seen = self._seen[key]
            if now - seen.since < self._window:
                break
            del self._seen[key]
            if seen.held:
                shown.append(seen.last._replace(times=seen.held))
                # Still being repeated: the next ones are held from now on.
                seen.since, seen.held = now, 0
                self._seen[key] = seen
        return shown

    def deadline(self) -> float | None:
        """When `due` may have something to show."""
        if not any(seen.held for seen in self._seen.values()):
            return None
        return next(iter(self._seen.values())).since + self._window

    def flush(self) -> list[Line]:
        """Everything that was held back."""
        shown = [s.last._replace(times=s.held) for s in self._seen.values() if s.held]
        self._seen.clear()
        return shown


_HINT = (
    " (lines that several workers print alike are shown once; RAY_DEDUP_LOGS=0 shows all of them)"
)
_CYAN, _GREEN, _RESET = "\x1b[36m", "\x1b[32m", "\x1b[0m"
_PALETTE = [f"\x1b[{code}m" for code in (36, 35, 34, 32, 33, 96, 95, 94, 92, 93)]


class Style:
    """How a line looks: `(name pid=123) text`, in Ray's colours on a terminal."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._colour = environ.get("RAY_COLOR_PREFIX", "")
        self._hinted = False

    def render(self, line: Line, *, on_terminal: bool) -> str:
        """The line as text, with its end."""
        colour = self._prefix_colour(line.pid) if on_terminal else ""
        reset = _RESET if colour else ""
        repeated = ""
        if line.times > 1:
            hint, self._hinted = ("" if self._hinted else _HINT), True
            repeated = f" [repeated {line.times}x across cluster]{hint}"
            if colour:
                repeated = f"{_GREEN}{repeated}{_RESET}"
        where = f", ip={line.ip}" if line.ip else ""
        return f"{colour}({line.name} pid={line.pid}{where}){reset} {line.text}{repeated}\n"

    def _prefix_colour(self, pid: int) -> str:
        if self._colour == "0":
            return ""
        return _PALETTE[pid % len(_PALETTE)] if self._colour == "1" else _CYAN


class Printer:
    """Prints what workers of a session print until it ends; `join` returns when all is shown."""

    def __init__(self, session: int, *, show: bool) -> None:
        self._session = session
        self._show = show
        self._folder = Folder.from_environment(os.environ)
        self._style = Style(os.environ)
        self._thread = threading.Thread(target=self._run, name="raymesh-output", daemon=True)

    def start(self) -> None:
        """Begins printing."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Waits for the last line, after the runtime has been stopped."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            deadline = self._folder.deadline()
            wait = _LONG if deadline is None else max(deadline - time.monotonic(), 0.0)
            arrived = _native.next_output(self._session, wait)
            if arrived is None:
                break
            if not self._show:
                continue
            now = time.monotonic()
            shown: list[Line] = []
            for item in arrived:
                shown += self._folder.feed(Line(*item), now)
            shown += self._folder.due(now)
            self._print(shown)
        self._print(self._folder.flush())

    def _print(self, lines: Iterable[Line]) -> None:
        pending: list[str] = []
        to_stderr = False
        for line in lines:
            if pending and line.is_stderr != to_stderr:
                _write(to_stderr, pending)
                pending = []
            to_stderr = line.is_stderr
            pending.append(self._style.render(line, on_terminal=_is_terminal(to_stderr)))
        if pending:
            _write(to_stderr, pending)


_LONG = 3600.0
"""Seconds to wait for output when nothing is held back."""


def _stream(is_stderr: bool) -> Any:
    return sys.stderr if is_stderr else sys.stdout


def _is_terminal(is_stderr: bool) -> bool:
    try:
        return bool(_stream(is_stderr).isatty())
    except (AttributeError, ValueError):
        return False


def _write(is_stderr: bool, lines: list[str]) -> None:
    stream = _stream(is_stderr)
    if stream is None:
        return
    text = "".join(lines)
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(text.encode("ascii", "backslashreplace").decode())
        stream.flush()
    except (OSError, ValueError):
        # Closed, or a pipe that nobody reads: nobody is there to be told.
        pass


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if not text:
        return None
    import re

    return re.compile(text)
