"""Errors of tasks that are also instances of what the user's code raised.

`of(error)` makes an instance of a class with both parents, `RayTaskError` and the class of the
cause, without ever running code of the user's class: no constructor, no `__init_subclass__` that
may fail unnoticed. Where there can be no such class, the plain `RayTaskError` stays.
"""

from __future__ import annotations

from typing import Any

from raymesh import exceptions

_TYPES: dict[type[BaseException], type[exceptions.RayTaskError] | None] = {}
"""The class with both parents by class of the cause; None where there is none."""

_LIMIT = 1000
"""Classes of the cause may be made at run time without end; forget them all from time to time."""


def of(error: exceptions.RayTaskError) -> exceptions.RayTaskError:
    """`error` as an instance of the class of its cause, or itself where that cannot be."""
    cause = error.cause
    if isinstance(cause, (exceptions.RayTaskError, exceptions.UserCodeException)):
        return error
    if isinstance(error, type(cause)):
        return error
    try:
        return make(error)
    except Exception:
        return error


def make(error: exceptions.RayTaskError) -> exceptions.RayTaskError:
    """As `of`; TypeError where there can be no such class."""
    cause = error.cause
    cause_class = type(cause)
    if cause_class not in _TYPES:
        if len(_TYPES) >= _LIMIT:
            _TYPES.clear()
        _TYPES[cause_class] = _make_class(cause_class)
    cls = _TYPES[cause_class]
    if cls is None:
        raise TypeError(f"{cause_class.__qualname__} cannot be subclassed")
    dual = allocate(cls, cause.args if isinstance(cause, _group_class()) else ())
    dual.__dict__.update(error.__dict__)
    dual.__dict__["cause"] = cause
    for name, value in native_fields(cause).items():
        _set(dual, name, value)
    _set(dual, "args", (cause,))
    notes = getattr(cause, "__notes__", None)
    if notes is not None:
        _set(dual, "__notes__", notes)
    return dual  # type: ignore[no-any-return]


def _make_class(cause_class: type[BaseException]) -> type[exceptions.RayTaskError] | None:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        """Everything is set from outside."""

    def __getattr__(self: Any, name: str) -> Any:
        # Only reached for what neither this error nor the classes have: fields of the cause.
        cause = self.__dict__.get("cause")
        if cause is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(cause, name)

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return exceptions._restore_task_error, (*exceptions.RayTaskError._packed(self), True)

    def __repr__(self: Any) -> str:
        return f"{type(self).__name__}({self.__dict__['cause']!r})"

    name = f"RayTaskError({cause_class.__name__})"
    namespace = {
        "__module__": exceptions.__name__,
        "__qualname__": name,
        "__doc__": exceptions.RayTaskError.__doc__,
        "__init__": __init__,
        "__getattr__": __getattr__,
        "__reduce__": __reduce__,
        "__reduce_ex__": lambda self, protocol: __reduce__(self),
        "__repr__": __repr__,
        "__str__": lambda self: exceptions.RayTaskError.__str__(self),
        "__hash__": object.__hash__,
        "__setattr__": object.__setattr__,
    }
    metaclass: Any = type(cause_class)
    try:
        cls: type[exceptions.RayTaskError] = metaclass(
            name, (exceptions.RayTaskError, cause_class), namespace
        )
    except Exception:
        return None
    return cls


def allocate(cls: type[Any], args: tuple[Any, ...]) -> Any:
    """An instance of an exception class, made by the interpreter's own part of it alone."""
    for base in cls.__mro__:
        if not base.__flags__ & _HEAP_TYPE:
            try:
                return base.__new__(cls, *args)
            except TypeError:
                # Its memory is not laid out as `cls` has it (MemoryError beside Exception).
                continue
    raise TypeError(f"{cls!r} has no builtin base")


def native_fields(error: BaseException) -> dict[str, Any]:
    """Fields that builtin exception classes keep outside of `__dict__`, such as `errno`."""
    fields = {}
    for base in type(error).__mro__:
        if base.__flags__ & _HEAP_TYPE or base in (BaseException, Exception, object):
            continue
        for name, member in vars(base).items():
            if type(member).__name__ not in ("member_descriptor", "getset_descriptor"):
                continue
            try:
                fields[name] = getattr(error, name)
            except Exception:
                continue
    return fields


def _set(error: BaseException, name: str, value: Any) -> None:
    """Sets a field where the class allows it: `args` may be a read-only property."""
    try:
        object.__setattr__(error, name, value)
    except (AttributeError, TypeError):
        pass


def _group_class() -> type[BaseException]:
    import builtins

    # Python 3.10 has none: no cause is an instance of this then.
    return getattr(builtins, "BaseExceptionGroup", exceptions.UnserializableException)


_HEAP_TYPE = 1 << 9
"""Of `type.__flags__`: the class was made at run time, not by the interpreter's C code."""
