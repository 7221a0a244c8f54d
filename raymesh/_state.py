"""What this process knows about its runtime: the lock under which it starts and ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from raymesh import _native

lock = threading.RLock()
"""Held while the runtime starts or ends."""


_starter: int | None = None
"""The thread that is starting the runtime."""


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Around the start of the runtime, under the lock."""
    global _starter
    _starter = threading.get_ident()
    try:
        yield
    finally:
        _starter = None


def refuse_while_starting() -> None:
    """Raises RuntimeError if this thread is in the middle of the start: a signal handler, or code
    that some import runs, which the lock does not keep out.
    """
    if _starter == threading.get_ident():
        raise RuntimeError(
            "The runtime is being started by the very thread that calls it, as when a signal "
            "handler makes a Ray call in the middle of init(). "
            "hint: call raymesh.init() before the handler is installed, or ask "
            "raymesh.is_initialized() in it."
        )


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
