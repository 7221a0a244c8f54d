"""The Python functions that the native part calls.

`install` is run when a driver starts its runtime and when a worker begins. It may be run again.
"""

from __future__ import annotations

from raymesh import _native


def install() -> None:
    """Hands the hooks to the native part."""
    from raymesh import _errors, _serialization, _session

    _native.set_hooks(
        serialize=_serialization.serialize,
        deserialize=_serialization.deserialize,
        materialize_error=_errors.materialize_error,
        package_error=_errors.package_error,
        auto_init=_session.auto_init,
    )
