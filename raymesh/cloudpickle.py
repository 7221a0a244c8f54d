"""`ray.cloudpickle`: the pickler that also takes functions and classes by value."""

from __future__ import annotations

from cloudpickle import (
    CloudPickler,
    Pickler,
    dump,
    dumps,
    load,
    loads,
    register_pickle_by_value,
    unregister_pickle_by_value,
)

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
