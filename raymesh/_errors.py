"""The two ends of a failure's way: packed where it happened, raised where it is read.

`package_error` runs in the worker, with the live exception at hand; `materialize_error` runs in
whoever reads the object. The bytes between them hold the text of the remote traceback apart from
the pickled exception, so that the text arrives even where the exception cannot be rebuilt.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable

from raymesh import exceptions as ex

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def package_error(
    exc: BaseException,
    function_name: str,
    pid: int | None = None,
    ip: str | None = None,
    actor_repr: str | None = None,
    actor_id: str | None = None,
) -> bytes:
    """What user code raised, as bytes for `materialize_error`. Drops the frames of the exception.

    `function_name` is what the error's first line shows: `f` or `Counter.add`.
    """
    from raymesh import _causes

    text = _format(exc)
    cause = exc.cause if isinstance(exc, ex.RayTaskError) else exc
    _drop_frames(exc)
    _drop_frames(cause)
    pickled = _causes.pack(cause)
    fields = (function_name, text, pid, _own_ip() if ip is None else ip, actor_repr, actor_id)
    return pickle.dumps((fields, pickled), protocol=5)


def task_error(payload: bytes) -> ex.RayTaskError:
    """The error that `package_error` packed, not yet as an instance of its cause's class."""
    from raymesh import _causes

    fields, pickled = pickle.loads(payload)
    function_name, text, pid, ip, actor_repr, actor_id = fields
    cause = _causes.unpack(pickled, text)
    return ex.RayTaskError(
        function_name,
        text,
        cause,
        pid=pid,
        ip=ip,
        actor_repr=actor_repr,
        actor_id=actor_id,
    )


def materialize_error(kind: str, payload: bytes, object_hex: str) -> BaseException:
    """The exception for an error value. `kind` is the name of an `ErrorKind` of rust/wire.

    `Argument:` before it: the error is that of an argument of the call, which therefore did not run.
    """
    outer, _, inner = kind.rpartition(":")
    if outer:
        cause = materialize_error(inner, payload, object_hex)
        text = f"{type(cause).__name__}: {cause}\n"
        return ex.RayTaskError("an argument of the call", text, cause).as_instanceof_cause()
    if kind == "Task":
        return task_error(payload).as_instanceof_cause()
    if kind == "ActorInit":
        return ex.ActorDiedError(task_error(payload))
    text = payload.decode("utf-8", "replace")
    if kind == "Unrebuildable":
        reason, _, why = text.partition("\n")
        return ex.ObjectReconstructionFailedError(object_hex, reason, why)
    if kind in _LOST:
        lost = _LOST[kind](object_hex, None, "")
        lost._text = text[:1].upper() + text[1:] or None
        return lost
    make = _TEXT.get(kind, ex.RaySystemError)
    return make(text)


def _actor_id_in(text: str) -> str | None:
    found = re.search(r"\b[0-9a-f]{32}\b", text)
    return found[0] if found else None


def _actor_died(text: str) -> BaseException:
    return ex.ActorDiedError.from_text(text or ex.ActorDiedError.BASE_ERROR_MSG, _actor_id_in(text))


def _actor_unavailable(text: str) -> BaseException:
    hex_id = _actor_id_in(text)
    return ex.ActorUnavailableError(text, bytes.fromhex(hex_id) if hex_id else None)


_LOST: dict[str, type[ex.ObjectLostError]] = {
    "ObjectLost": ex.ObjectLostError,
    "OwnerDied": ex.OwnerDiedError,
}
_TEXT: dict[str, Callable[[str], BaseException]] = {
    "ActorDied": _actor_died,
    "ActorUnavailable": _actor_unavailable,
    "ActorAlreadyExists": ex.ActorAlreadyExistsError,
    "ActorHandleNotFound": ex.ActorHandleNotFoundError,
    "GetTimeout": ex.GetTimeoutError,
    "WorkerCrashed": ex.WorkerCrashedError,
    "NodeDied": ex.NodeDiedError,
    "StoreFull": ex.ObjectStoreFullError,
    "Cancelled": lambda text: ex.TaskCancelledError(error_message=text),
    "Unschedulable": ex.TaskUnschedulableError,
    "ActorUnschedulable": ex.ActorUnschedulableError,
    "GroupRemoved": lambda text: ex.TaskPlacementGroupRemoved(),
    "ActorGroupRemoved": lambda text: ex.ActorPlacementGroupRemoved(),
    "PendingCallsLimit": ex.PendingCallsLimitExceeded,
    "System": ex.RaySystemError,
}


def _format(exc: BaseException) -> str:
    """The traceback of user code, with its chain of causes, without the frames of this package."""
    import traceback

    try:
        whole = traceback.TracebackException.from_exception(exc)
        pending = [whole]
        while pending:
            part = pending.pop()
            own = [frame for frame in part.stack if not frame.filename.startswith(_PACKAGE)]
            part.stack[:] = own
            pending += [p for p in (part.__cause__, part.__context__) if p is not None]
        return "".join(whole.format())
    except Exception:
        # Its `__str__` raises, for example.
        return f"{type(exc).__name__}: <the exception has no printable text>\n"


def _drop_frames(exc: BaseException) -> None:
    """Lets go of the frames, and so of the local variables, of an exception and of its causes."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [exc]
    while pending:
        error = pending.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        # Not by assignment, which the user's class may forbid.
        BaseException.with_traceback(error, None)
        pending += [error.__cause__, error.__context__]


def _own_ip() -> str:
    from raymesh._cluster import node_ip_address

    return node_ip_address()
