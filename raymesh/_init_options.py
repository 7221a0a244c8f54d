"""The keywords of `init`: which are known, and what is done about each.

A keyword whose value asks for nothing that is missing is accepted; one that only tunes the insides
of Ray is accepted with one log line; one whose absence would change what the program does raises
NotImplementedError.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from raymesh import _machine

RESERVED = ("CPU", "GPU", "memory", "object_store_memory")
MINIMUM_STORE = 75 << 20
"""Bytes. As in Ray."""

TUNING = {
    "dashboard_host": "127.0.0.1",
    "dashboard_port": None,
    "enable_resource_isolation": False,
    "cgroup_path": None,
    "system_reserved_cpu": None,
    "system_reserved_memory": None,
    "proxy_server_url": None,
    "object_spilling_directory": None,
    "_enable_object_reconstruction": False,
    "_plasma_directory": None,
    "_object_spilling_directory": None,
    "_driver_object_store_memory": None,
    "_redis_username": None,
    "_redis_password": None,
    "_temp_dir": None,
    "_metrics_export_port": None,
    "_system_config": None,
    "_tracing_startup_hook": None,
    "_skip_env_hook": False,
}
"""Keywords that only tune, with the value that asks for nothing."""

USED_PRIVATE = ("_memory", "_node_ip_address", "_node_name")
"""Private keywords that mean something here."""


class Host(NamedTuple):
    """What `start_driver` is told about this host."""

    resources: dict[str, float]
    object_store_memory: int
    ip_address: str


def split_unknown(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The private keywords that mean something here; RuntimeError for unknown ones."""
    unknown = [key for key in kwargs if key not in TUNING and key not in USED_PRIVATE]
    if unknown:
        raise RuntimeError(f"Unknown keyword argument(s): {', '.join(unknown)}")
    return {key: kwargs[key] for key in USED_PRIVATE if kwargs.get(key) is not None}


def ignored(values: Mapping[str, Any]) -> list[str]:
    """Keywords that were given and have no effect."""
    return [key for key, value in values.items() if key in TUNING and value != TUNING[key]]


def check_joining(**given: Any) -> None:
    """Raises ValueError for what only says how a host is to be, when no host is started."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise ValueError(
            f"When connecting to an existing cluster, {' and '.join(names)} must not be provided."
        )


def check_unavailable(*, local_mode: bool) -> None:
    """Raises for keywords that ask for something that is missing."""
    if local_mode:
        raise RuntimeError(
            "`local_mode` is no longer supported.\n"
            "hint: call the plain function (f._function) to debug it in this process."
        )


def checked_namespace(namespace: Any) -> str:
    """The namespace to use: the given one, RAY_NAMESPACE's, or a new one."""
    if namespace is None:
        namespace = os.environ.get("RAY_NAMESPACE") or None
    if namespace is None:
        import uuid

        return str(uuid.uuid4())
    if not isinstance(namespace, str):
        raise TypeError("namespace must be None or a string.")
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')
    return namespace


def wants_log_to_driver(log_to_driver: bool | None) -> bool:
    """Whether what workers print is shown in the driver."""
    if log_to_driver is None:
        return os.environ.get("RAY_LOG_TO_DRIVER", "1") not in ("0", "false", "False", "")
    return log_to_driver


def host(
    *,
    num_cpus: float | None,
    num_gpus: float | None,
    resources: Mapping[str, float] | None,
    object_store_memory: int | None,
    memory: int | None,
    ip_address: str | None,
    head: bool = True,
) -> Host:
    """What this host offers, by measure and by wish."""
    _check_amounts(num_cpus, num_gpus, resources, memory)
    available = _machine.memory_available()
    if object_store_memory is None:
        object_store_memory = _machine.object_store_memory(available)
    elif isinstance(object_store_memory, bool) or not isinstance(object_store_memory, int | float):
        raise TypeError(
            f"object_store_memory is a number of bytes, got {object_store_memory!r}. "
            "For one GiB, pass object_store_memory=1 << 30."
        )
    elif object_store_memory < MINIMUM_STORE:
        raise ValueError(
            f"Attempting to cap object store memory usage at {object_store_memory} bytes, but "
            f"the minimum allowed is {MINIMUM_STORE} bytes."
        )
    if memory is None:
        memory = max(available - object_store_memory, 0)
    address = ip_address or _machine.ip_address()
    amounts: dict[str, float] = {
        "CPU": float(_machine.cpu_count() if num_cpus is None else num_cpus),
        "memory": float(memory),
        f"node:{address}": 1.0,
    }
    if head:
        amounts["node:__internal_head__"] = 1.0
    names = _machine.gpu_names()
    amounts["GPU"] = float(len(names) if num_gpus is None else num_gpus)
    if names and amounts["GPU"]:
        amounts[f"accelerator_type:{_machine.accelerator_type(names[0])}"] = 1.0
    amounts.update({name: float(amount) for name, amount in (resources or {}).items()})
    return Host({k: v for k, v in amounts.items() if v}, int(object_store_memory), address)


def _check_amounts(num_cpus: Any, num_gpus: Any, resources: Any, memory: Any) -> None:
    if resources is not None and not isinstance(resources, Mapping):
        raise TypeError(
            f"resources is a dict of amounts by name, such as {{'license': 2}}, got {resources!r}."
        )
    for name in resources or {}:
        if not isinstance(name, str):
            raise TypeError(f"The names of resources are texts, not {name!r}.")
        if name in RESERVED:
            raise AssertionError(
                f"{name!r} cannot be a custom resource: it is one of {RESERVED}. "
                "Use the keywords num_cpus, num_gpus and object_store_memory instead."
            )
    amounts = {"CPU": num_cpus, "GPU": num_gpus, "memory": memory, **(resources or {})}
    for name, amount in amounts.items():
        if amount is None:
            continue
        if not isinstance(amount, (int, float)):
            raise AssertionError(f"The quantity of {name} must be a number, not {amount!r}")
        if amount < 0:
            raise ValueError(
                f"Resource quantities must be nonnegative. Violated by resource {name!r} "
                f"in {amounts}."
            )
        if not float(amount).is_integer():
            # What a task asks for may be a fraction, what a host has may not.
            raise ValueError(
                f"Resource quantities must all be whole numbers. Violated by resource {name!r} "
                f"in {amounts}."
            )
