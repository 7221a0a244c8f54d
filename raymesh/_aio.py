"""Object references in event loops: `await ref`, and refs in `asyncio.wait`.

One queue of completions a loop. The native part puts a token into it when an object is ready; here
the token finds what is to be done.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from raymesh import _native
from raymesh._futures import value_of

_Callback = Callable[[_native.ObjectRef[Any]], object]
_tokens = itertools.count(1)
_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_LoopBridge]] = (
    WeakKeyDictionary()
)
"""The loop itself holds its bridge, as a reader of a descriptor: when it is closed, both end."""


class _LoopBridge:
    """Completions for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.completions = _native.Completions()
        self.waiting: dict[int, Callable[[], None]] = {}
        """What to do when an object is ready, by token. It holds the object: one that were dropped
        before would never be ready, and its token would stay here."""
        self.watched: dict[int, _Watched] = {}
        """References with callbacks, by identity: equal ones may be of different sessions."""
        loop.add_reader(self.completions.fileno(), self.take)

    @classmethod
    def of_running_loop(cls) -> _LoopBridge:
        """The bridge of the loop that runs this code."""
        loop = asyncio.get_running_loop()
        known = _bridges.get(loop)
        bridge = None if known is None else known()
        if bridge is None:
            bridge = cls(loop)
            _bridges[loop] = weakref.ref(bridge)
        return bridge

    def watch(self, ref: _native.ObjectRef[Any], act: Callable[[], None]) -> None:
        token = next(_tokens)
        self.waiting[token] = act
        self.completions.watch(ref, token)

    def take(self) -> None:
        for token in self.completions.take():
            act = self.waiting.pop(token, None)
            if act is not None:
                act()


class _Watched:
    """The callbacks of one reference in one loop. Watched once, however often they change."""

    def __init__(self, bridge: _LoopBridge, ref: _native.ObjectRef[Any]) -> None:
        self.bridge = bridge
        self.ref = ref
        self.callbacks: list[tuple[_Callback, Context]] = []
        bridge.watched[id(ref)] = self
        bridge.watch(ref, self.complete)

    def complete(self) -> None:
        del self.bridge.watched[id(self.ref)]
        for callback, context in self.callbacks:
            asyncio.get_running_loop().call_soon(callback, self.ref, context=context)


def wait_for(ref: _native.ObjectRef[Any]) -> Generator[Any, None, Any]:
    """What `await ref` iterates."""
    if not ref.is_ready():
        bridge = _LoopBridge.of_running_loop()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bridge.watch(ref, partial(_wake, ready, ref))
        yield from ready
    return value_of(ref)


def _wake(ready: asyncio.Future[None], _held: _native.ObjectRef[Any]) -> None:
    if not ready.done():
        ready.set_result(None)


# What `asyncio.wait` asks of what it is given. It takes no awaitables since Python 3.11.


def add_done_callback(
    ref: _native.ObjectRef[Any], callback: _Callback, context: Context | None
) -> None:
    """Has the running loop call `callback(ref)` when the object is ready."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "add_done_callback() of an ObjectRef needs a running event loop. "
            "hint: elsewhere, use ref.future().add_done_callback(...)."
        ) from None
    context = context or copy_context()
    if ref.done():
        loop.call_soon(callback, ref, context=context)
        return
    bridge = _LoopBridge.of_running_loop()
    watched = bridge.watched.get(id(ref)) or _Watched(bridge, ref)
    watched.callbacks.append((callback, context))


def remove_done_callback(ref: _native.ObjectRef[Any], callback: _Callback) -> int:
    """Forgets a callback of the running loop; how often it was there."""
    watched = _LoopBridge.of_running_loop().watched.get(id(ref))
    if watched is None:
        return 0
    kept = [item for item in watched.callbacks if item[0] != callback]
    removed = len(watched.callbacks) - len(kept)
    watched.callbacks = kept
    return removed


def result(ref: _native.ObjectRef[Any]) -> Any:
    """The value of an object that is ready."""
    _check_done(ref)
    return value_of(ref)


def exception(ref: _native.ObjectRef[Any]) -> BaseException | None:
    """What `result` raises for an object that is ready, None if it returns."""
    _check_done(ref)
    try:
        value_of(ref)
    except BaseException as error:
        return error
    return None


def _check_done(ref: _native.ObjectRef[Any]) -> None:
    if not ref.done():
        raise asyncio.InvalidStateError(
            f"{ref} is not ready: await it, or call raymesh.get(ref), which waits."
        )
