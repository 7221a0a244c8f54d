"""Object references as futures of threads: `ref.future()`.

The native part puts a token into a queue when an object is ready; here a thread, which is started by
the first future of a session, finds the future and completes it.
"""

from __future__ import annotations

import itertools
import os
import select
import threading
from concurrent.futures import Future
from typing import Any

from raymesh import _native

_tokens = itertools.count(1)


def value_of(ref: _native.ObjectRef[Any]) -> Any:
    """The value of an object that is ready, or whose session has ended."""
    if not ref.is_ready():
        raise RuntimeError("raymesh was shut down before this object had a value")
    return _native.get_one(ref, None)


class _ThreadBridge:
    """Completions for `concurrent.futures`, served by a thread."""

    def __init__(self) -> None:
        self.completions = _native.Completions()
        self.waiting: dict[int, tuple[_native.ObjectRef[Any], Future[Any]]] = {}
        self.ended, self.end = os.pipe()
        self.thread = threading.Thread(target=self.serve, name="raymesh-futures", daemon=True)
        self.thread.start()

    def watch(self, ref: _native.ObjectRef[Any], future: Future[Any]) -> None:
        token = next(_tokens)
        self.waiting[token] = (ref, future)
        self.completions.watch(ref, token)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self.completions.fileno(), select.POLLIN)
        poll.register(self.ended, select.POLLHUP)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            for token in self.completions.take():
                ref, future = self.waiting.pop(token)
                _complete(ref, future)
            if self.ended in ready:
                os.close(self.ended)
                return

    def stop(self) -> None:
        """End the thread, once it has completed what is ready."""
        os.close(self.end)
        if threading.current_thread() is not self.thread:
            # Not without end: a callback of the user's may wait for what the session's end holds up.
            self.thread.join(1.0)


def _complete(ref: _native.ObjectRef[Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = value_of(ref)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


_bridge: _ThreadBridge | None = None
_lock = threading.RLock()
"""A signal handler may come while its own thread holds it."""


def session_ended() -> None:
    """All objects of the session have been completed: the thread that did so is not needed."""
    global _bridge
    with _lock:
        bridge, _bridge = _bridge, None
    if bridge is not None:
        bridge.stop()


def _running_bridge() -> _ThreadBridge:
    with _lock:
        return _bridge or _install(_ThreadBridge())


def _install(made: _ThreadBridge) -> _ThreadBridge:
    global _bridge
    if _bridge is None:
        _bridge = made
    else:
        made.stop()  # a signal handler was quicker
    return _bridge


def future(ref: _native.ObjectRef[Any]) -> Future[Any]:
    """A future of the object's value. Cancelling it does not cancel the task."""
    made: Future[Any] = Future()
    if ref.is_ready():
        _complete(ref, made)
    else:
        _running_bridge().watch(ref, made)
    return made
