"""`ray.util`: what exists so far. Missing names say so when they are called."""

from __future__ import annotations

import importlib
from typing import Any

from raymesh import _later, _native, _state
from raymesh._cluster import node_ip_address

# As in Ray the function `placement_group` hides the module of that name: so this is not put off.
from raymesh.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """Names of the live named actors of this namespace; of all, as dicts with the namespace."""
    _state.ensure_running()
    found = _native.Actor.list_named(all_namespaces)
    return found if all_namespaces else [actor["name"] for actor in found]


def get_node_ip_address() -> str:
    """The address of the host that runs this code."""
    return node_ip_address()


def __getattr__(name: str) -> Any:
    if name == "scheduling_strategies":
        return importlib.import_module(f"raymesh.util.{name}")
    if name in _later.UTIL_FUNCTIONS:
        return _later.function(name, _later.UTIL_FUNCTIONS[name])
    raise _later.no_attribute("raymesh.util", name)


__all__ = [
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "list_named_actors",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]
