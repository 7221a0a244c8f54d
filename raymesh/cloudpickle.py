"""`ray.cloudpickle`: the pickler that also takes functions and classes by value.

cloudpickle forgets in which file a function was written; here it is kept, so that tracebacks from
workers show file names and source lines.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any, ClassVar

import cloudpickle as _upstream
from cloudpickle import (
    load,
    loads,
    register_pickle_by_value,
    unregister_pickle_by_value,
)
from cloudpickle.cloudpickle import _code_reduce

_FORGOTTEN = "<dynamic-code>"


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    make, args = _code_reduce(code)
    # A new string each time: whether equal strings are one object would change the pickle.
    kept = "".join(code.co_filename)
    return make, tuple(kept if item == _FORGOTTEN else item for item in args)


class Pickler(_upstream.Pickler):  # type: ignore[misc]
    """cloudpickle's, with the file names of code."""

    dispatch_table: ClassVar[Any] = ChainMap(
        {CodeType: _reduce_code}, _upstream.Pickler.dispatch_table
    )


CloudPickler = Pickler


def dump(obj: Any, file: Any, protocol: int | None = None, buffer_callback: Any = None) -> None:
    """Pickles `obj` into `file`."""
    Pickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)


def dumps(obj: Any, protocol: int | None = None, buffer_callback: Any = None) -> bytes:
    """`obj` as a pickle."""
    with io.BytesIO() as file:
        dump(obj, file, protocol, buffer_callback)
        return file.getvalue()


__all__ = [
    "CloudPickler",
    "Pickler",
    "dump",
    "dumps",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]
