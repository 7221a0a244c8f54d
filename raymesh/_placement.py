"""Where a call wants to run: from options to the plain values that the native part takes.

`of_task` and `of_actor` also raise as Ray does for what cannot be: a bundle that is not there, or that is too
small.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from raymesh import _labels

Wish = tuple[Any, list[list[_labels.Rule]]]
"""Strategy and selectors, as `rust/python/src/wish.rs` reads them."""

Amounts = dict[str, float]


def of_task(options: Mapping[str, Any], resources: Amounts, name: str) -> Wish:
    """The wish of a task that needs these resources."""
    return _strategy(options, resources, resources, name), _selectors(options)


def of_actor(options: Mapping[str, Any], held: Amounts, needed: Amounts, name: str) -> Wish:
    """The wish of an actor that holds some resources, and needs these to be created."""
    return _strategy(options, held, needed, name), _selectors(options)


def _selectors(options: Mapping[str, Any]) -> list[list[_labels.Rule]]:
    first = options.get("label_selector")
    others = [strategy.get("label_selector") for strategy in options.get("fallback_strategy") or []]
    if not first and not others:
        return []
    return [_labels.rules(selector) for selector in (first, *others)]


def _strategy(options: Mapping[str, Any], held: Amounts, needed: Amounts, name: str) -> Any:
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, str):
        return (strategy.lower(),)
    if strategy is None:
        _warn_of_old(options)
        group = options.get("placement_group", "default")
        index = options.get("placement_group_bundle_index", -1)
        capture = options.get("placement_group_capture_child_tasks")
        return _in_group(group, index, capture, held, needed, name)
    kind = type(strategy).__name__
    if kind == "PlacementGroupSchedulingStrategy":
        index = strategy.placement_group_bundle_index
        capture = strategy.placement_group_capture_child_tasks
        return _in_group(strategy.placement_group, index, capture, held, needed, name)
    if kind == "NodeAffinitySchedulingStrategy":
        node = bytes.fromhex(strategy.node_id)
        spill, fail = strategy._spill_on_unavailable, strategy._fail_on_unavailable
        return "host", node, bool(strategy.soft), bool(spill), bool(fail)
    return "labels", _expressions(strategy.hard), _expressions(strategy.soft)


def _in_group(
    group: Any, index: int, capture: bool | None, held: Amounts, needed: Amounts, name: str
) -> Any:
    if isinstance(group, str):
        if index != -1:
            raise ValueError("If placement group is not set, the value of bundle index must be -1.")
        # Nothing was said: as the call that submits it.
        return ("default",) if capture is False else None
    from raymesh.util.placement_group import PlacementGroup, check_placement_group_index

    group = group or PlacementGroup.empty()
    check_placement_group_index(group, index)
    if group.is_empty:
        return ("default",)
    _check_fits(group, held, needed, name)
    if capture is None:
        capture = _captures()
    return "group", group.id.binary(), None if index == -1 else index, bool(capture)


def _captures() -> bool:
    from raymesh import _native

    group = _native.context()["group"] if _native.is_worker() else None
    return bool(group and group[1])


def _check_fits(group: Any, held: Amounts, needed: Amounts, name: str) -> None:
    bundles = group.bundle_specs

    def fits(amounts: Amounts) -> bool:
        return any(
            all(bundle.get(key, 0) >= amount for key, amount in amounts.items())
            for bundle in bundles
        )

    if not fits(held):
        shown = {key: int(n) if float(n).is_integer() else n for key, n in held.items()}
        raise ValueError(
            f"Cannot schedule {name} with the placement group because the resource request "
            f"{shown} cannot fit into any bundles for the placement group, {bundles}."
        )
    if not fits(needed):
        raise ValueError(
            f"Cannot schedule {name} with the placement group because the actor requires "
            f"{int(needed.get('CPU', 0))} CPU for creation, but it cannot fit into any bundles for "
            f"the placement group, {bundles}. Consider creating a placement group with CPU "
            "resources."
        )


def _expressions(expressions: Any) -> list[_labels.Rule]:
    kinds = {"In": "in", "NotIn": "not in", "Exists": "present", "DoesNotExist": "absent"}
    return [
        (it.key, kinds[type(it.operator).__name__], list(getattr(it.operator, "values", ())))
        for it in expressions
    ]


_OLD = {
    "placement_group": ("default", None),
    "placement_group_bundle_index": (-1,),
    "placement_group_capture_child_tasks": (None, False),
}


def _warn_of_old(options: Mapping[str, Any]) -> None:
    for key, usual in _OLD.items():
        value = options.get(key, usual[0])
        if not any(value is it or value == it for it in usual):
            warnings.warn(
                f"{key} parameter is deprecated. Use "
                "scheduling_strategy=PlacementGroupSchedulingStrategy(...) instead.",
                DeprecationWarning,
                stacklevel=6,
            )
