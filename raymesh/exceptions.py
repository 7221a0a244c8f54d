"""The exceptions that programs see, with the names, bases and constructors of Ray's.

`RayTaskError` carries what user code raised; what `get` raises of it is also an instance of the
user's class (made in `raymesh/_dual.py`). The other classes tell what happened to a task, an actor
or an object for reasons that lie outside of the user's code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from raymesh._ids import TaskID

if TYPE_CHECKING:
    from typing_extensions import Self


_TRACEBACK = "Traceback (most recent call last):"


class RayError(Exception):
    """The base of all exceptions of the runtime."""

    def to_bytes(self) -> bytes:
        """This exception as bytes that `from_bytes` reads."""
        from raymesh import _causes

        return _causes.dump(self)

    @staticmethod
    def from_bytes(b: bytes) -> BaseException:
        """The exception that `to_bytes` wrote."""
        from raymesh import _causes

        return _causes.load(b)


class CrossLanguageError(RayError):
    """Raised by a task in another language."""

    def __init__(self, ray_exception: Any) -> None:
        super().__init__(ray_exception)

    def __str__(self) -> str:
        return f"A task in another language failed: {self.args[0]}"


class TaskCancelledError(RayError):
    """The task was cancelled."""

    def __init__(self, task_id: TaskID | None = None, error_message: str | None = None) -> None:
        # Nothing is passed on to the base here and below: `args` then is what the program gave.
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        what = "This task or its dependency" if self.task_id is None else f"Task: {self.task_id}"
        return " ".join(filter(None, [f"{what} was cancelled.", self.error_message]))


class RayTaskError(RayError):
    """User code raised an exception in a task or an actor method.

    `cause` is that exception; its text with the remote traceback is `traceback_str`.
    """

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
    ) -> None:
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.proctitle = proctitle or f"ray::{function_name}"
        self.pid = os.getpid() if pid is None else pid
        self.ip = _own_ip() if ip is None else ip
        self.actor_repr = actor_repr
        self._actor_id = actor_id
        super().__init__(function_name, traceback_str, cause, proctitle, pid, ip)

    def make_dual_exception_instance(self) -> RayTaskError:
        """This error as one that is also an instance of the cause's class."""
        from raymesh import _dual

        return _dual.make(self)

    def as_instanceof_cause(self) -> RayTaskError:
        """What `get` raises: also an instance of the cause's class, or itself where that cannot be."""
        from raymesh import _dual

        return _dual.of(self)

    def __str__(self) -> str:
        where = [f"pid={self.pid}", f"ip={self.ip}"]
        if self._actor_id is not None:
            where.append(f"actor_id={self._actor_id}")
        if self.actor_repr is not None:
            where.append(f"repr={self.actor_repr}")
        head = f"{self.proctitle}() ({', '.join(where)})"
        text = self.traceback_str.strip("\n")
        if not text.startswith(_TRACEBACK):
            return f"{head}\n{text}"
        # One head for each part of a chain of causes.
        return "\n".join(head if line == _TRACEBACK else line for line in text.split("\n"))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_task_error, (*self._packed(), False)

    def _packed(self) -> tuple[Any, ...]:
        from raymesh import _causes

        where = (self.proctitle, self.pid, self.ip, self.actor_repr, self._actor_id)
        return self.function_name, self.traceback_str, _causes.pack(self.cause), where


class LocalRayletDiedError(RayError):
    """The agent of the task's host died."""

    def __str__(self) -> str:
        return super().__str__() or "The agent of the task's host died."


class WorkerCrashedError(RayError):
    """The process that ran the task died."""

    def __str__(self) -> str:
        return super().__str__() or "The worker died unexpectedly while executing this task."


class RayActorError(RayError):
    """The actor could not finish the call: it died, or cannot be reached."""

    BASE_ERROR_MSG = "The actor experienced an error before finishing this task."

    def __init__(
        self,
        actor_id: str | None = None,
        error_msg: str = BASE_ERROR_MSG,
        actor_init_failed: bool = False,
        preempted: bool = False,
    ) -> None:
        self.actor_id = actor_id
        self.error_msg = error_msg
        self._actor_init_failed = actor_init_failed
        self._preempted = preempted

    @property
    def preempted(self) -> bool:
        """Whether the actor's host was taken away."""
        return self._preempted

    @property
    def actor_init_failed(self) -> bool:
        """Whether the actor's constructor failed."""
        return self._actor_init_failed

    def __str__(self) -> str:
        return self.error_msg

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


class ActorDiedError(RayActorError):
    """The actor is dead for good."""

    BASE_ERROR_MSG = "The actor died unexpectedly before finishing this task."

    def __init__(self, cause: RayTaskError | None = None) -> None:
        if not cause:
            super().__init__(error_msg=self.BASE_ERROR_MSG)
            return
        if not isinstance(cause, RayTaskError):
            raise AssertionError(
                f"the cause of an ActorDiedError is a RayTaskError or None, not {cause!r}"
            )
        super().__init__(
            actor_id=cause._actor_id,
            error_msg=f"The actor died because of an error raised in its creation task, {cause}",
            actor_init_failed=True,
        )
        self.args = (cause,)

    @staticmethod
    def from_task_error(task_error: RayTaskError) -> ActorDiedError:
        """The error of an actor whose constructor raised."""
        return ActorDiedError(task_error)

    @classmethod
    def from_text(cls, text: str, actor_id: str | None) -> Self:
        """The error with a text of the runtime's."""
        error = cls()
        error.error_msg = text
        error.actor_id = actor_id
        return error


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached now, and may be later; the call may have run or not."""

    def __init__(self, error_message: str, actor_id: bytes | None) -> None:
        hex_id = None if actor_id is None else actor_id.hex()
        super().__init__(
            actor_id=hex_id,
            error_msg=f"The actor{f' {hex_id}' if hex_id else ''} is unavailable: "
            f"{error_message.rstrip('.')}. The call may have run or not; its effects, if any, are "
            "not undone.",
        )


class RaySystemError(RayError):
    """The runtime itself failed."""

    def __init__(self, client_exc: BaseException | str, traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\ntraceback: {self.traceback_str}" if self.traceback_str else text


class AuthenticationError(RayError):
    """A token was missing or wrong."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class UserCodeException(RayError):
    """Wraps an exception of user code."""


class ObjectStoreFullError(RayError):
    """The object does not fit into the object store."""


class OutOfDiskError(RayError):
    """The disk is full."""


class OutOfMemoryError(RayError):
    """The host ran out of memory, and the task was ended to save it."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class NodeDiedError(RayError):
    """The host is dead or cannot be reached."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class ObjectLostError(RayError):
    """The object's value is gone: what held it has failed."""

    _WHY = "All copies of it are lost because of failures."
    _text: str | None = None
    """What the runtime says about this object, in place of `_WHY`."""

    def __init__(self, object_ref_hex: str, owner_address: bytes | None, call_site: str) -> None:
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site
        super().__init__(object_ref_hex, owner_address, call_site)

    def _base_str(self) -> str:
        return f"Failed to retrieve object {self.object_ref_hex}."

    def __str__(self) -> str:
        why = self._text or self._WHY
        made = f" It was created at: {self.call_site}" if self.call_site else ""
        return f"{self._base_str()} {why}{made}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


class ObjectFetchTimedOutError(ObjectLostError):
    """Fetching the object from its host took too long."""

    _WHY = "Fetching it from its host timed out."


class RpcError(RayError):
    """A message to another process failed."""

    def __init__(self, message: str, rpc_code: int | None = None) -> None:
        self.message = message
        self.rpc_code = rpc_code

    def __str__(self) -> str:
        return self.message


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was deleted while references to it existed."""

    _WHY = "It was deleted although references to it exist: please report this as a bug."


class ObjectFreedError(ObjectLostError):
    """The program freed the object."""

    _WHY = "The program freed it. Free an object only when nobody reads it any more."


class OwnerDiedError(ObjectLostError):
    """The process that created the reference has died, and its value with it."""

    _WHY = "Its owner, the process that created the reference, has died, and no copy of it is left."


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost and could not be made again."""

    _WHY = "It was lost and cannot be made again."

    def __init__(
        self,
        object_ref_hex: str,
        reason: Any = None,
        reason_message: str | None = None,
        owner_address: bytes | None = None,
        call_site: str = "",
    ) -> None:
        self.reason = reason
        self.reason_message = reason_message
        super().__init__(object_ref_hex, owner_address, call_site)
        if reason_message:
            self._text = f"{self._WHY} {reason_message}"


class GetTimeoutError(RayError, TimeoutError):
    """`get` waited for the whole of its timeout."""


class PlasmaObjectNotAvailable(RayError):
    """The object was not available within the timeout."""


class AsyncioActorExit(RayError):
    """Unwinds the method of an async actor that called `exit_actor`."""


class RuntimeEnvSetupError(RayError):
    """The runtime environment could not be set up."""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        parts = ["Failed to set up runtime environment.", self.error_message]
        return "\n".join(filter(None, parts))


class TaskPlacementGroupRemoved(RayError):
    """The placement group of the task was removed."""

    def __str__(self) -> str:
        return "The placement group corresponding to this task has been removed."


class ActorPlacementGroupRemoved(RayError):
    """The placement group of the actor was removed."""

    def __str__(self) -> str:
        return "The placement group corresponding to this Actor has been removed."


class PendingCallsLimitExceeded(RayError):
    """More calls of the actor wait than its `max_pending_calls` allows."""


class TaskUnschedulableError(RayError):
    """No host of the cluster can run the task."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        super().__init__(error_message)

    def __str__(self) -> str:
        return f"The task is not schedulable: {self.error_message}"


class ActorUnschedulableError(RayError):
    """No host of the cluster can run the actor."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        super().__init__(error_message)

    def __str__(self) -> str:
        return f"The actor is not schedulable: {self.error_message}"


class ObjectRefStreamEndOfStreamError(RayError):
    """The generator has no more references."""


class OufOfBandObjectRefSerializationException(RayError):
    """A reference was pickled where the runtime cannot count it."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel operation of a compiled graph timed out."""


class RayCgraphCapacityExceeded(RaySystemError):
    """The buffer of a compiled graph is full."""


class RayDirectTransportError(RaySystemError):
    """A direct transfer of a tensor failed."""


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator that ran again gave another number of objects than the first time."""


class UnserializableException(RayError):
    """An exception arrived that cannot be rebuilt here; its text is kept."""

    def __init__(self, original_stack_trace: str) -> None:
        self._original_stack_trace = original_stack_trace
        super().__init__(original_stack_trace)

    def __str__(self) -> str:
        return (
            "An exception cannot be rebuilt here. Its class must be importable and picklable.\n"
            f"Original exception:\n{self._original_stack_trace}"
        )


class ActorAlreadyExistsError(ValueError, RayError):
    """An actor of that name exists in the namespace."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        super().__init__(error_message)


class ActorHandleNotFoundError(ValueError, RayError):
    """The handle belongs to an actor that this cluster does not know."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        super().__init__(error_message)


def _own_ip() -> str:
    from raymesh._cluster import node_ip_address

    return node_ip_address()


def _restore(cls: type[RayError], args: tuple[Any, ...], state: dict[str, Any]) -> RayError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def _restore_task_error(
    function_name: str, text: str, pickled: bytes, where: tuple[Any, ...], dual: bool
) -> RayTaskError:
    from raymesh import _causes

    error = RayTaskError(function_name, text, _causes.unpack(pickled, text), *where)
    return error.as_instanceof_cause() if dual else error


RAY_EXCEPTION_TYPES = [
    value
    for value in list(vars().values())
    if isinstance(value, type) and issubclass(value, RayError)
]
