"""Turns observed values into plain JSON data that does not depend on the system, process or run."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import Any

Plain = Any
"""JSON data: None, bool, int, float, str, list and dict of these."""

_LONG = 200
"""Bytes or characters above which a string is described by its length and hash."""

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (_ANSI, ""),
    (re.compile(r"\bpid=\d+"), "pid=N"),
    (re.compile(r"\bip=[\d.]+(, )?"), ""),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(:\d+)?\b"), "<ip>"),
    (re.compile(r"0x[0-9a-f]+"), "<address>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<id>"),
    (re.compile(r'File "[^"]*?([^/"]+)", line \d+'), r'File "\1"'),
    (re.compile(r"\braymesh\b"), "ray"),
)


def normalize(text: str) -> str:
    """The text without what differs from run to run: ids, addresses, line numbers, colours."""
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text


def class_names(cls: type) -> list[str]:
    """The names of a class and its bases in method resolution order, without `object`."""
    return [base.__name__ for base in cls.__mro__ if base is not object]


def describe_exception(error: BaseException) -> Plain:
    """An exception by its classes: what `except` clauses of a user's program depend on."""
    return {"raised": type(error).__name__, "classes": class_names(type(error))}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _array(value: Any) -> Plain | None:
    kind = f"{type(value).__module__}.{type(value).__name__}"
    if kind == "numpy.ndarray":
        return {
            "array": str(value.dtype),
            "shape": list(value.shape),
            "writeable": bool(value.flags.writeable),
            "digest": _digest(value.tobytes()),
        }
    if kind == "torch.Tensor":
        plain = value.detach().cpu().contiguous()
        return {
            "tensor": str(value.dtype),
            "shape": list(value.shape),
            "digest": _digest(plain.numpy().tobytes()),
        }
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return {"scalar": str(value.dtype), "value": repr(value.item())}
    return None


def _order(item: Plain) -> str:
    return repr(item)


def describe(value: Any) -> Plain:
    """A value by type and content, in the same words on both systems."""
    if value is None or isinstance(value, bool | int):
        return value
    name = type(value).__name__
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, str):
        return (
            value if len(value) <= _LONG else {"str": len(value), "digest": _digest(value.encode())}
        )
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        content: Plain = data.hex() if len(data) <= _LONG else _digest(data)
        return {name: len(data), "content": content}
    if isinstance(value, complex | range | slice):
        return {name: repr(value)}
    if isinstance(value, BaseException):
        return describe_exception(value)
    if isinstance(value, type):
        return {"class": value.__name__}
    if isinstance(value, Mapping):
        return {name: [[describe(k), describe(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {name: [describe(item) for item in value]}
    if isinstance(value, set | frozenset):
        return {name: sorted((describe(item) for item in value), key=_order)}
    array = _array(value)
    if array is not None:
        return array
    if dataclasses.is_dataclass(value):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {name: fields}
    if type(value).__module__ == "__main__" and hasattr(value, "__dict__"):
        return {name: {key: describe(item) for key, item in vars(value).items()}}
    return {"object": name}
