"""Object references as futures: `await ref` and `ref.future()`.

One queue of completions a loop, and one for all threads. The native part puts a token into it when
an object is ready; here the token finds the future.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import threading
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from raymesh import _native

_tokens = itertools.count(1)
_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopBridge] = WeakKeyDictionary()


class _LoopBridge:
    """Completions for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.completions = _native.Completions()
        self.waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self.completions.fileno(), self.take)

    def watch(self, ref: _native.ObjectRef[Any], future: asyncio.Future[None]) -> None:
        token = next(_tokens)
        self.waiting[token] = future
        self.completions.watch(ref, token)

    def take(self) -> None:
        for token in self.completions.take():
            future = self.waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)


def wait_for(ref: _native.ObjectRef[Any]) -> Generator[Any, None, Any]:
    """What `await ref` iterates."""
    if not ref.is_ready():
        loop = asyncio.get_running_loop()
        bridge = _bridges.get(loop)
        if bridge is None:
            bridge = _bridges[loop] = _LoopBridge(loop)
        ready: asyncio.Future[None] = loop.create_future()
        bridge.watch(ref, ready)
        yield from ready
    return _value(ref)


def _value(ref: _native.ObjectRef[Any]) -> Any:
    """The value of an object that is ready, or whose session has ended."""
    if not ref.is_ready():
        raise RuntimeError("raymesh was shut down while this object was awaited")
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
        value = _value(ref)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


_threads: _ThreadBridge | None = None
_lock = threading.Lock()


def session_ended() -> None:
    """All objects of the session have been completed: the thread that did so is not needed."""
    global _threads
    with _lock:
        threads, _threads = _threads, None
    if threads is not None:
        threads.stop()


def future(ref: _native.ObjectRef[Any]) -> Future[Any]:
    """A future of the object's value. Cancelling it does not cancel the task."""
    global _threads
    made: Future[Any] = Future()
    if ref.is_ready():
        _complete(ref, made)
        return made
    with _lock:
        if _threads is None:
            _threads = _ThreadBridge()
    _threads.watch(ref, made)
    return made
