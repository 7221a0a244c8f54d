"""Values to pickles and back.

The C pickler does the work. It asks Python only about what it has no rule for: functions and
classes that the other side cannot import (cloudpickle knows how to carry these), and tensors.
Large buffers stay out of the pickle (protocol 5).
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

from raymesh import _native

_PROTOCOL = 5

_pickler: type[pickle.Pickler] | None = None


def _pickler_class() -> type[pickle.Pickler]:
    """The pickler; made when first needed, for cloudpickle is slow to import."""
    global _pickler
    if _pickler is not None:
        return _pickler
    from raymesh import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is _native.ObjectRef:
                return obj.__reduce__()
            torch = sys.modules.get("torch")
            if torch is not None and isinstance(obj, torch.Tensor):
                from raymesh import _tensors

                reduced = _tensors.reduce(obj)
                if reduced is not NotImplemented:
                    return reduced
            return super().reducer_override(obj)

    _pickler = Pickler
    return Pickler


def warm_up() -> None:
    """Import what serialization needs, ahead of the first value."""
    _pickler_class()


_SCALARS = frozenset({bool, int, float, complex, str, bytes, type(None)})

_MOST_PARTS = 64
"""Parts of a value that are looked at to find out whether it is plain."""


def _is_plain(value: Any) -> bool:
    """Whether the C pickler alone surely handles it: numbers, text, arrays, containers of these."""
    numpy = sys.modules.get("numpy")
    array = numpy.ndarray if numpy is not None else None
    pending = [value]
    for _ in range(_MOST_PARTS):
        if not pending:
            return True
        part = pending.pop()
        cls = type(part)
        if cls in _SCALARS:
            continue
        if cls is list or cls is tuple:
            if len(part) > _MOST_PARTS:
                return False
            pending += part
        elif cls is dict:
            if len(part) > _MOST_PARTS:
                return False
            pending += part
            pending += part.values()
        elif cls is array:
            if part.dtype.hasobject:
                return False
        elif cls is not _native.ObjectRef:
            return False
    return not pending


def serialize(value: Any, what: str = "value") -> tuple[bytes, list[pickle.PickleBuffer]]:
    """The pickle of ``value`` and the buffers that belong beside it. ``what`` it is: "value", "result",
    or "arguments" (positional ones and keywords).

    Raises TypeError that names the parts which do not pickle; what else the pickling raised is
    passed on as it is, with a note of these parts.
    """
    if _is_plain(value):
        buffers: list[pickle.PickleBuffer] = []
        return pickle.dumps(value, _PROTOCOL, buffer_callback=_collect(buffers)), buffers
    try:
        try:
            return _dump(value)
        except Exception as error:
            from raymesh import _deep

            if not _deep.is_cause_of(error):
                raise
            with _deep.recursion():
                return _dump(value)
    except Exception as error:
        from raymesh import _deep, _pickling

        if _deep.is_cause_of(error):
            raise _deep.too_deep(value) from None
        if isinstance(error, TypeError):
            if what == "arguments":
                value, what = _pickling.argument_at_fault(*value)
            raise _pickling.not_serializable(value, what, error) from error
        _pickling.note_culprits(value, error)
        raise


def _dump(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _pickler_class()(file, protocol=_PROTOCOL, buffer_callback=_collect(buffers)).dump(value)
    return file.getvalue(), buffers


def _collect(buffers: list[pickle.PickleBuffer]) -> Callable[[pickle.PickleBuffer], bool]:
    def take(buffer: pickle.PickleBuffer) -> bool:
        try:
            buffer.raw()
        except BufferError:
            return True  # not contiguous: into the pickle
        buffers.append(buffer)
        return False

    return take


def deserialize(data: bytes, buffers: list[Any]) -> Any:
    """The value of a pickle and its buffers.

    Raises RaySystemError with the cause's text where a class of it does not load.
    """
    try:
        return pickle.loads(data, buffers=buffers)
    except Exception as error:
        import traceback

        from raymesh.exceptions import RaySystemError

        raise RaySystemError(error, traceback.format_exc()) from error


def load_definition(data: bytes, name: str) -> Any:
    """A remote function or class. ``name`` is for the error."""
    try:
        return pickle.loads(data)
    except Exception as error:
        raise RuntimeError(
            f"The worker cannot load {name}: {type(error).__name__}: {error}\n"
            "hint: modules that it imports must be importable in the workers: they have the driver's "
            "sys.path."
        ) from error
