"""Exceptions to bytes and back, so that the class and the fields of what user code raised arrive.

Python rebuilds an exception by calling its class with `args`, which fails for classes whose
constructor wants something else. Here the constructor is not called: class, `args` and fields
travel one by one, unless the class says itself how it wants to be pickled. What cannot be pickled
is replaced by its text, member by member.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from raymesh import cloudpickle
from raymesh._dual import allocate, native_fields
from raymesh.exceptions import UnserializableException


def dump(error: BaseException) -> bytes:
    """`error` as bytes. Raises what pickling raises when not even its class can be pickled."""
    try:
        return _checked(_dumps(error))
    except Exception:
        # The way that the class chose, or one of its members, does not work.
        return _checked(_dumps(error, plain=True))


def load(data: bytes) -> BaseException:
    """The exception that `dump` wrote."""
    error = pickle.loads(data)
    if not isinstance(error, BaseException):
        raise TypeError(f"the class of the exception pickles itself as {type(error).__name__}")
    return error


def pack(error: BaseException) -> bytes:
    """As `dump`; empty when it cannot be pickled at all."""
    try:
        return dump(error)
    except Exception:
        return b""


def unpack(data: bytes, text: str) -> BaseException:
    """As `load`; an exception that says `text` when it cannot be rebuilt here."""
    try:
        return load(data)
    except Exception:
        return UnserializableException(text)


def _checked(data: bytes) -> bytes:
    load(data)
    return data


def _dumps(error: BaseException, *, plain: bool = False) -> bytes:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, protocol=5)
    if plain:
        # Also where the class pickles itself.
        pickler.plain = error
    pickler.dump(error)
    return buffer.getvalue()


class _Pickler(cloudpickle.Pickler):
    plain: BaseException | None = None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, BaseException):
            if obj is self.plain:
                return _rebuild, (type(obj), *_members(obj, only_picklable=True))
            if not _pickles_itself(type(obj)):
                return _rebuild, (type(obj), *_members(obj, only_picklable=False))
        return super().reducer_override(obj)


def _pickles_itself(cls: type[BaseException]) -> bool:
    names = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__")
    own = [base for base in cls.__mro__ if base.__flags__ & _HEAP_TYPE]
    return any(name in vars(base) for base in own for name in names)


def _members(error: BaseException, *, only_picklable: bool) -> list[Any]:
    try:
        args = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    except AttributeError:
        args = ()
    members: list[Any] = [tuple(args), native_fields(error), {**_slots(error), **error.__dict__}]
    if not only_picklable:
        return members
    args, fields, state = members
    return [
        tuple(_or_text(item) for item in args),
        {name: _or_text(value) for name, value in fields.items()},
        {name: _or_text(value) for name, value in state.items()},
    ]


def _slots(error: BaseException) -> dict[str, Any]:
    found = {}
    for base in type(error).__mro__:
        if not base.__flags__ & _HEAP_TYPE:
            continue
        for name, member in vars(base).items():
            if type(member).__name__ == "member_descriptor" and hasattr(error, name):
                found[name] = getattr(error, name)
    return found


def _or_text(value: Any) -> Any:
    try:
        pickle.loads(cloudpickle.dumps(value))
    except Exception:
        try:
            return f"<not picklable: {value!r}>"
        except Exception:
            return f"<not picklable: {type(value).__name__}>"
    return value


def _rebuild(
    cls: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any], state: dict[str, Any]
) -> BaseException:
    error: BaseException = allocate(cls, args)
    for name, value in {**fields, **state}.items():
        try:
            object.__setattr__(error, name, value)
        except (AttributeError, TypeError):
            error.__dict__[name] = value
    # Past any property of the user's class of that name.
    BaseException.args.__set__(error, args)  # type: ignore[attr-defined]
    return error


_HEAP_TYPE = 1 << 9
"""Of `type.__flags__`: the class was made at run time, not by the interpreter's C code."""
