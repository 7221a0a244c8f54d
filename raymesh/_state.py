"""What this process knows about its runtime: the lock under which it starts and ends."""

from __future__ import annotations

import threading

from raymesh import _native

lock = threading.RLock()
"""Held while the runtime starts or ends."""


def ensure_running() -> None:
    """Starts the runtime with defaults if it does not run, as every Ray call does."""
    if not _native.is_running():
        from raymesh import _session

        _session.auto_init()


def after_fork() -> None:
    """In the child of a fork: the parent's runtime, and its threads, are not here."""
    global lock
    _native.after_fork()
    # Another thread may have held it when the process was forked.
    lock = threading.RLock()
