"""The functions of the Ray API that programs call most: `remote`, `get`, `put`, `wait`, `kill`.

Thin: what can be left to the native part is left to it, and arguments are looked at only where
Ray's answer to a wrong one differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, TypeVar, overload

from raymesh import _native, _options, _state
from raymesh._native import ObjectRef
from raymesh.actor import ActorClass, ActorHandle
from raymesh.remote_function import RemoteFunction

T = TypeVar("T")


def remote(*args: Any, **kwargs: Any) -> Any:
    """Makes a function or a class remote: `@ray.remote`, or `@ray.remote(num_cpus=2)`."""
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _make_remote(args[0], {})
    if args or not kwargs:
        raise AssertionError(
            "The @ray.remote decorator must be applied either with no arguments and no "
            "parentheses, for example '@ray.remote', or it must be applied using some of the "
            f"arguments in the list {list(_options.ALL)}, for example "
            "'@ray.remote(num_returns=2, resources={\"CustomResource\": 1})'."
        )

    def decorate(definition: Any) -> Any:
        return _make_remote(definition, kwargs)

    return decorate


def _make_remote(definition: Any, options: dict[str, Any]) -> RemoteFunction | ActorClass:
    if isinstance(definition, type):
        _options.check_actor(options)
        return ActorClass(definition, options)
    if isinstance(definition, FunctionType) or _is_cython(definition):
        _options.check_task(options)
        return RemoteFunction(definition, options)
    raise TypeError(
        "The @ray.remote decorator must be applied to either a function or a class, "
        f"not to {definition!r}."
    )


def _is_cython(definition: Any) -> bool:
    return type(definition).__name__ == "cython_function_or_method"


@overload
def get(
    object_refs: ObjectRef[T], *, timeout: float | None = None, _use_object_store: bool = False
) -> T: ...
@overload
def get(
    object_refs: Sequence[ObjectRef[Any]],
    *,
    timeout: float | None = None,
    _use_object_store: bool = False,
) -> list[Any]: ...
def get(object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False) -> Any:
    """The value of a reference, or of a list of them, once it exists.

    Raises what the task raised, or GetTimeoutError after `timeout` seconds.
    """
    if timeout is not None and not timeout >= 0:
        if timeout != timeout:
            raise ValueError("The timeout of get() is a number of seconds, not nan.")
        # As in Ray: without end.
        timeout = None
    if type(object_refs) is ObjectRef:
        return _native.get_one(object_refs, timeout)
    if isinstance(object_refs, list):
        _state.ensure_running()
        try:
            return _native.get(object_refs, timeout)
        except TypeError as error:
            wrong = _first_wrong(object_refs)
            if wrong is None:
                raise
            text = f"Attempting to call `get` on the value {wrong[0]!r}, which is not an ray.ObjectRef."
            raise TypeError(text) from error
    raise ValueError(
        f"Invalid type of object refs, {type(object_refs)}, is given. "
        "'object_refs' must either be an ObjectRef or a list of ObjectRefs."
    )


def put(value: T, *, _owner: Any = None, _tensor_transport: str | None = None) -> ObjectRef[T]:
    """Stores a value; the reference can be passed to tasks and actors without a copy."""
    if type(value) is ObjectRef:
        raise TypeError(
            "Calling 'put' on an ray.ObjectRef is not allowed. If you really want to do this, you "
            "can wrap the ray.ObjectRef in a list and call 'put' on it."
        )
    if _owner is not None:
        raise ValueError("The argument `_owner` of `ray.put` is no longer supported.")
    if not _native.is_running():
        _state.ensure_running()
    return _native.put(value)


def wait(
    ray_waitables: list[ObjectRef[Any]],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
    """Waits until `num_returns` of the references are ready, or for `timeout` seconds.

    Returns those that are ready, at most `num_returns`, and the others.
    """
    given: Any = ray_waitables
    if not isinstance(given, list):
        single = f"a single ray.ObjectRef {given}" if isinstance(given, ObjectRef) else type(given)
        raise TypeError(f"wait() expected a list of ray.ObjectRef, got {single}")
    if timeout is not None and timeout < 0:
        raise ValueError(f"The 'timeout' argument must be nonnegative. Received {timeout}")
    if not ray_waitables:
        return [], []
    _state.ensure_running()
    if num_returns <= 0:
        raise ValueError(f"Invalid number of objects to return {num_returns}.")
    if num_returns > len(ray_waitables):
        raise ValueError(
            "num_returns cannot be greater than the number of ray_waitables provided to ray.wait."
        )
    try:
        return _native.wait(ray_waitables, int(num_returns), timeout, bool(fetch_local))
    except TypeError as error:
        wrong = _first_wrong(ray_waitables)
        if wrong is None:
            raise
        text = f"wait() expected a list of ray.ObjectRef, got a list containing {type(wrong[0])}"
        raise TypeError(text) from error


def _first_wrong(refs: list[Any]) -> tuple[Any] | None:
    for item in refs:
        if type(item) is not ObjectRef:
            return (item,)
    return None


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """Ends an actor at once, without running what it has at its exit."""
    given: Any = actor
    if not isinstance(given, ActorHandle):
        raise ValueError(
            f"ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: {type(given)}.\n"
            "hint: give it the handle that Class.remote() or get_actor() has returned."
        )
    if not _native.is_running():
        from raymesh.exceptions import ActorHandleNotFoundError

        raise ActorHandleNotFoundError(
            f"{actor} belongs to a session that has ended. Create the actor again."
        )
    actor._ray_native.kill(no_restart)


def get_gpu_ids() -> list[int]:
    """The GPUs that the task or actor that runs this code may use."""
    _state.ensure_running()
    return list(_native.context()["gpu_ids"])
