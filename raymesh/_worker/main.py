"""What a forked worker runs: the native loop, with the hooks that it calls."""

from __future__ import annotations

import os

from raymesh import _hooks, _native, _serialization

__all__ = ["start"]

_hooks.install()
_serialization.warm_up()


def start(proc_id: int, segment: int, eventfd: int, driver: int) -> int:
    """Be the worker ``proc_id`` until asked to end; return the exit code.

    ``segment``, ``eventfd`` and ``driver`` are file descriptors, as in `child.Inheritance`.
    """
    if os.environ.get("RAYMESH_INSTALL"):
        from raymesh import compat

        compat.install()
    namespace = os.environ.get("RAYMESH_NAMESPACE", "")
    session = os.environ.get("RAYMESH_SESSION", "")
    return _native.run_worker(proc_id, segment, eventfd, driver, namespace, session)
