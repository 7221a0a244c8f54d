"""raymesh: the Ray API on a single-controller mesh runtime.

`import raymesh as ray`. Names are Ray's. What a program does not use is not imported: the names
below that are not defined here are loaded when they are first asked for (`_LAZY`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raymesh import _built, _hooks, _native
from raymesh._api import get, get_gpu_ids, kill, put, remote, wait
from raymesh._session import init, is_initialized, shutdown
from raymesh.actor import get_actor, method

if TYPE_CHECKING:
    from raymesh import cloudpickle, exceptions, util
    from raymesh._cluster import available_resources, cluster_resources, nodes
    from raymesh._ids import (
        ActorClassID,
        ActorID,
        ClusterID,
        FunctionID,
        JobID,
        NodeID,
        PlacementGroupID,
        TaskID,
        UniqueID,
        WorkerID,
    )
    from raymesh._logging_config import LoggingConfig
    from raymesh.compat import install
    from raymesh.runtime_context import get_runtime_context

__version__ = "0.1.0"
RAY_VERSION = "2.60.0"
"""The version of Ray whose API this is."""

ObjectRef = _native.ObjectRef
ObjectID = _native.ObjectRef

SCRIPT_MODE = 0
WORKER_MODE = 1
LOCAL_MODE = 2

_LAZY = {
    "nodes": "_cluster",
    "cluster_resources": "_cluster",
    "available_resources": "_cluster",
    "get_runtime_context": "runtime_context",
    "LoggingConfig": "_logging_config",
    "install": "compat",
    **dict.fromkeys(
        (
            "ActorClassID",
            "ActorID",
            "ClusterID",
            "FunctionID",
            "JobID",
            "NodeID",
            "PlacementGroupID",
            "TaskID",
            "UniqueID",
            "WorkerID",
        ),
        "_ids",
    ),
}
"""Names by the module that defines them."""

_SUBMODULES = (
    "cloudpickle",
    "compat",
    "exceptions",
    "job_config",
    "job_submission",
    "runtime_context",
    "runtime_env",
    "util",
)


def __getattr__(name: str) -> Any:
    import importlib

    value: Any
    if name in _LAZY:
        value = getattr(importlib.import_module(f"raymesh.{_LAZY[name]}"), name)
    elif name in _SUBMODULES:
        return importlib.import_module(f"raymesh.{name}")
    elif name == "logger":
        from raymesh._logging import logger

        value = logger()
    else:
        from raymesh import _later

        value = _later.find(name)
        if value is None:
            raise _later.no_attribute("raymesh", name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


def _set_up_process() -> None:
    """What a driver hands on to its workers through their environment."""
    import os

    if os.environ.get("RAYMESH_INSTALL") == "1":
        from raymesh import compat

        compat.install_if_possible()
    if "RAYMESH_LOGGING_CONFIG" in os.environ:
        from raymesh import _logging_config

        _logging_config.apply_from_environment()


_hooks.install()
_set_up_process()

__all__ = [
    "__version__",
    # running
    "init",
    "shutdown",
    "is_initialized",
    "install",
    # tasks and objects
    "remote",
    "get",
    "put",
    "wait",
    "ObjectRef",
    # actors
    "method",
    "kill",
    "get_actor",
    # what is there
    "nodes",
    "cluster_resources",
    "available_resources",
    "get_runtime_context",
    "get_gpu_ids",
    # ids
    "ActorClassID",
    "ActorID",
    "ClusterID",
    "FunctionID",
    "JobID",
    "NodeID",
    "ObjectID",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
    # modules and constants
    "LoggingConfig",
    "SCRIPT_MODE",
    "WORKER_MODE",
    "cloudpickle",
    "exceptions",
    "util",
]
