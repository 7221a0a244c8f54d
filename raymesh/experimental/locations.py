"""Which hosts have the bytes of objects. As `ray.experimental.locations`."""

from __future__ import annotations

from typing import Any

from raymesh import _native

Locations = dict["_native.ObjectRef[Any]", dict[str, Any]]


def get_object_locations(obj_refs: list[_native.ObjectRef[Any]], timeout_ms: int = -1) -> Locations:
    """Of each object `node_ids` (hexadecimal), `object_size` and `did_spill`.

    Small objects lie in the memory of their owner: they have no `node_ids`. What is not ready yet has no size
    (None). Without limit if `timeout_ms` is negative.

    Raises RuntimeError before init(), GetTimeoutError if the other hosts do not answer in time.
    """
    return _locate(obj_refs, None if timeout_ms < 0 else timeout_ms / 1000, ask=True)


def get_local_object_locations(obj_refs: list[_native.ObjectRef[Any]]) -> Locations:
    """As `get_object_locations`, so far as this process knows: nobody is asked."""
    return _locate(obj_refs, None, ask=False)


def _locate(refs: list[_native.ObjectRef[Any]], limit: float | None, *, ask: bool) -> Locations:
    if not _native.is_running():
        raise RuntimeError("Ray hasn't been initialized.")
    found = _native.locate(list(refs), limit, ask)
    return {
        ref: {
            "node_ids": [host.hex() for host in hosts],
            "object_size": size,
            "did_spill": False,
        }
        for ref, (size, hosts) in zip(refs, found, strict=True)
    }
