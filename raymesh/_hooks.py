"""The Python functions that the native part calls, handed to it when `raymesh` is imported.

Serialization is called for many a value, so its functions are given as they are. The others are
rare, and load what they need when they are called.
"""

from __future__ import annotations

import os
from typing import Any

from raymesh import _native, _serialization, _state

_installed = False


def install() -> None:
    """Hands the hooks to the native part, and those of a fork to the interpreter.

    It may be run again, without effect.
    """
    global _installed
    if _installed:
        return
    _installed = True
    os.register_at_fork(after_in_child=_state.after_fork)
    _native.set_hooks(
        serialize=_serialization.serialize,
        deserialize=_serialization.deserialize,
        materialize_error=_materialize_error,
        package_error=_package_error,
        auto_init=_auto_init,
    )


def _materialize_error(kind: str, payload: bytes, object_hex: str) -> BaseException:
    from raymesh import _errors

    return _errors.materialize_error(kind, payload, object_hex)


def _package_error(exc: BaseException, function_name: str, **where: Any) -> bytes:
    from raymesh import _errors

    return _errors.package_error(exc, function_name, **where)


def _auto_init() -> None:
    from raymesh import _session

    _session.auto_init()
