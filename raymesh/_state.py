"""What this process knows about its runtime: one place, reset when the runtime ends.

Remote functions keep native objects between calls. They register here (`on_end`) so that these
are dropped when the runtime that they belong to ends.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from raymesh import _native

if TYPE_CHECKING:
    from weakref import WeakSet


class Resettable(Protocol):
    """What holds objects of the current runtime."""

    def _reset(self) -> None: ...


lock = threading.RLock()
"""Held while the runtime starts or ends."""

_holders: WeakSet[Resettable] | None = None

namespace: str = ""
"""The namespace of this driver; workers learn theirs from the runtime."""


def ensure_running() -> None:
    """Starts the runtime with defaults if it does not run, as every Ray call does."""
    if not _native.is_running():
        from raymesh import _session

        _session.auto_init()


def on_end(holder: Resettable) -> None:
    """Has `holder._reset()` called when the runtime ends, unless it is gone by then."""
    global _holders
    with lock:
        if _holders is None:
            from weakref import WeakSet

            _holders = WeakSet()
        _holders.add(holder)


def ended() -> None:
    """The runtime has ended: let everyone drop what belongs to it."""
    global _holders, namespace
    with lock:
        holders, _holders, namespace = _holders, None, ""
    for holder in list(holders or ()):
        holder._reset()
