"""How an actor runs its calls: one at a time, on threads, or in an event loop."""

from __future__ import annotations

import asyncio
import inspect
import selectors
import threading
from collections import deque
from contextvars import ContextVar
from typing import Any

from raymesh import _native
from raymesh._actor_meta import read_class
from raymesh._worker import thread_pools

current_call: ContextVar[int] = ContextVar("raymesh_call", default=0)
"""Token of the call that an asyncio task works for."""

_ASYNC_CONCURRENCY = 1000
"""Calls at once in an async actor that does not say otherwise (Ray's default)."""


def mode_of(cls: type, max_concurrency: int) -> str:
    """``"async"`` if the class has any coroutine method, else ``"threads"`` or ``"plain"``."""
    if read_class(cls).is_async:
        return "async"
    return "threads" if max_concurrency > 1 else "plain"


def display_name(instance: Any, class_name: str) -> str:
    """What stands before an actor's output: its ``repr`` if the class defines one, else the class."""
    if getattr(type(instance), "__repr__", None) is object.__repr__:
        return class_name
    try:
        return repr(instance)
    except Exception:
        return class_name


def run(actor: _native.Construction, max_concurrency: int) -> bool:
    """Make the actor and run its calls in its mode.

    ``max_concurrency`` 0 is the mode's default. True: the caller's plain loop is to go on; False: end.
    """
    cls = actor.load_class()
    if cls is None:
        return False
    mode = mode_of(cls, max_concurrency)
    if mode == "async":
        _run_loop(actor, max_concurrency or _ASYNC_CONCURRENCY)
        return False
    if not actor.construct():
        return False
    if mode == "threads":
        for number in range(1, max_concurrency):
            threading.Thread(
                target=_serve_calls, name=f"raymesh-call-{number}", daemon=True
            ).start()
    return True


def _serve_calls() -> None:
    thread_pools.start_thread()
    _native.serve()


class _Selector(selectors.EpollSelector):
    """Looks at the mailbox before it sleeps: a call that follows at once needs no wake-up."""

    def __init__(self, calls: _native.AsyncCalls) -> None:
        super().__init__()
        self._calls = calls

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if self._calls.spin():
            return super().select(0)
        try:
            return super().select(timeout)
        finally:
            self._calls.back()


def _run_loop(actor: _native.Construction, max_concurrency: int) -> None:
    calls = _native.AsyncCalls()
    loop = asyncio.SelectorEventLoop(_Selector(calls))
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve(loop, actor, calls, max_concurrency))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _serve(
    loop: asyncio.AbstractEventLoop,
    actor: _native.Construction,
    calls: _native.AsyncCalls,
    limit: int,
) -> None:
    """Make the actor, then start a task for each call, at most ``limit`` at once, until it is to end."""
    if not actor.construct():
        return
    ended = loop.create_future()
    waiting: deque[tuple[int, str, tuple[Any, ...], dict[str, Any] | None]] = deque()
    running: set[asyncio.Task[None]] = set()

    def finished(task: asyncio.Task[None]) -> None:
        running.discard(task)
        exit_code = None if task.cancelled() else task.exception()
        if exit_code is not None and not ended.done():
            ended.set_exception(exit_code)
        start()

    def start() -> None:
        while waiting and len(running) < limit:
            task = loop.create_task(_run_call(calls, *waiting.popleft()))
            running.add(task)
            task.add_done_callback(finished)
        if calls.exiting() and not running and not waiting and not ended.done():
            ended.set_result(None)

    def arrived() -> None:
        waiting.extend(calls.take())
        start()

    loop.add_reader(calls.fileno(), arrived)
    await ended


def _cancelled(error: asyncio.CancelledError) -> BaseException:
    """What a caller sees of it. Not the error itself: raised where a caller awaits the call, it would
    mean that the caller's own task was cancelled."""
    from raymesh.exceptions import TaskCancelledError

    text = "It raised asyncio.CancelledError: something that it awaited was cancelled in the actor."
    shown = TaskCancelledError(error_message=text)
    shown.__cause__ = error
    return shown


async def _run_call(
    calls: _native.AsyncCalls,
    token: int,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
) -> None:
    current_call.set(token)
    try:
        result = calls.method(name)(*args, **(kwargs or {}))
        if inspect.isawaitable(result):
            result = await result
    except SystemExit:
        raise
    except asyncio.CancelledError as error:
        calls.failed(token, _cancelled(error))
    except BaseException as error:
        calls.failed(token, error)
    else:
        calls.done(token, result)
