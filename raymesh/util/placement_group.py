"""Placement groups: resources reserved together, on hosts that fit a strategy, for tasks and actors."""

from __future__ import annotations

from typing import Any

from raymesh import _native, _state
from raymesh._ids import NodeID, PlacementGroupID
from raymesh.util import _group_checks

VALID_PLACEMENT_GROUP_STRATEGIES = _group_checks.STRATEGIES


class PlacementGroup:
    """A handle to a placement group. It can be passed on like any value."""

    @staticmethod
    def empty() -> PlacementGroup:
        """No group at all."""
        return PlacementGroup(PlacementGroupID.nil())

    def __init__(
        self, id: PlacementGroupID, bundle_cache: list[dict[str, float]] | None = None
    ) -> None:
        self.id = id
        self.bundle_cache = bundle_cache

    @property
    def is_empty(self) -> bool:
        """Whether it is no group at all."""
        return self.id.is_nil()

    def ready(self) -> Any:
        """A reference that is the group itself once all its bundles have a place."""
        _state.ensure_running()
        if self.is_empty:
            return _native.put(self)
        return _native.await_group(self.id.binary(), self)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Whether the group is created within that time."""
        from raymesh._api import get, wait
        from raymesh.exceptions import TaskPlacementGroupRemoved

        done, _ = wait([self.ready()], timeout=timeout_seconds)
        if not done:
            return False
        try:
            get(done[0])
        except TaskPlacementGroupRemoved:
            raise Exception(f"Placement group {self.id} does not exist.") from None
        return True

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """What each bundle reserves."""
        if not self.bundle_cache:
            found = _native.find_groups(id=self.id.binary())
            self.bundle_cache = [dict(bundle) for bundle in found[0]["bundles"]] if found else []
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """How many bundles it has."""
        return len(self.bundle_specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Asks for a placement group, and does not wait for it.

    `strategy`: "PACK" (the default: on few hosts), "SPREAD" (on many), "STRICT_PACK" (on one),
    "STRICT_SPREAD" (each bundle on another). All bundles get a place, or none does. The group is removed
    with the job that asked for it, unless `lifetime` is "detached".
    """
    _state.ensure_running()
    validate_placement_group(
        bundles,
        strategy,
        lifetime,
        _soft_target_node_id,
        bundle_label_selector,
        topology_strategy,
    )
    from raymesh import _labels

    same = [key for key in topology_strategy or {} if key != _group_checks.NODE_ID_LABEL]
    amounts = [{key: float(value) for key, value in bundle.items()} for bundle in bundles]
    binary = _native.create_group(
        amounts,
        [_labels.rules(selector) for selector in bundle_label_selector or []],
        _group_checks.node_level(strategy, topology_strategy),
        name=name or "",
        detached=lifetime == "detached",
        near=NodeID.from_hex(_soft_target_node_id).binary() if _soft_target_node_id else None,
        same=same[0] if same else "",
    )
    return PlacementGroup(PlacementGroupID(binary), bundle_cache=amounts)


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Removes a placement group. What runs in it is killed, what waits for it fails."""
    assert placement_group is not None
    _state.ensure_running()
    if not placement_group.is_empty:
        _native.remove_group(placement_group.id.binary())


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The placement group of that name in this namespace."""
    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group")
    _state.ensure_running()
    found = _native.find_groups(name=placement_group_name)
    if not found:
        raise ValueError(f"Failed to look up placement group with name: {placement_group_name}")
    return PlacementGroup(PlacementGroupID(found[0]["id"]))


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """How the group stands; without one, a table of all groups by their ids."""
    _state.ensure_running()
    if placement_group is None:
        return {found["id"].hex(): _entry(found) for found in _native.find_groups()}
    if placement_group.is_empty:
        return {}
    found = _native.find_groups(id=placement_group.id.binary())
    return _entry(found[0]) if found else {}


def _entry(found: dict[str, Any]) -> dict[str, Any]:
    created = found["took_ms"] if found["state"] != "PENDING" else 0.0
    scheduling = {"CREATED": "FINISHED", "REMOVED": "REMOVED"}
    return {
        "placement_group_id": found["id"].hex(),
        "name": found["name"],
        "bundles": dict(enumerate(found["bundles"])),
        "bundles_to_node_id": {at: node.hex() for at, node in enumerate(found["nodes"])},
        "strategy": found["strategy"],
        "state": found["state"],
        "stats": {
            "end_to_end_creation_latency_ms": created,
            "scheduling_latency_ms": created,
            "scheduling_attempt": found["attempts"],
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": scheduling.get(found["state"], "QUEUED"),
        },
    }


def get_current_placement_group() -> PlacementGroup | None:
    """The group that the calling task or actor runs in. None in a driver."""
    _state.ensure_running()
    group = _native.context()["group"]
    return PlacementGroup(PlacementGroupID(group[0])) if group else None


def check_placement_group_index(placement_group: PlacementGroup, bundle_index: int) -> None:
    """ValueError unless the group has such a bundle."""
    assert placement_group is not None
    if placement_group.id.is_nil():
        if bundle_index != -1:
            raise ValueError("If placement group is not set, the value of bundle index must be -1.")
    elif bundle_index >= placement_group.bundle_count or bundle_index < -1:
        raise ValueError(
            f"placement group bundle index {bundle_index} is invalid. "
            f"Valid placement group indexes: 0-{placement_group.bundle_count}"
        )


def validate_placement_group(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> bool:
    """ValueError for what cannot be a placement group."""
    _group_checks.check(
        bundles,
        strategy,
        lifetime,
        _soft_target_node_id,
        bundle_label_selector,
        topology_strategy,
    )
    return True


def _valid_resource_shape(
    resources: dict[str, float], bundle_specs: list[dict[str, float]]
) -> bool:
    """Whether any bundle can hold the resources; libraries of Ray ask that."""
    return any(
        all(bundle.get(key, 0) >= amount for key, amount in resources.items() if key != "bundle")
        for bundle in bundle_specs
    )


__all__ = [
    "PlacementGroup",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]
