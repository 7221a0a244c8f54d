"""What a placement group may be: Ray's answers to what it may not."""

from __future__ import annotations

import warnings
from typing import Any

from raymesh import _labels
from raymesh._ids import NodeID

STRATEGIES = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}

NODE_ID_LABEL = "ray.io/node-id"


def node_level(strategy: str | None, topology: dict[str, str] | None) -> str:
    """The strategy for hosts, whichever way it was given."""
    if topology is not None:
        return topology.get(NODE_ID_LABEL, "PACK")
    return strategy if strategy is not None else "PACK"


def check(
    bundles: Any,
    strategy: Any,
    lifetime: Any,
    target: Any,
    selectors: Any,
    topology: Any,
) -> None:
    """ValueError for what cannot be a placement group."""
    if topology is not None and strategy is not None:
        raise ValueError(
            "`strategy` and `topology_strategy` cannot both be specified. "
            f"Pass node-level packing via `topology_strategy['{NODE_ID_LABEL}']`."
        )
    if strategy is not None and strategy not in STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy}. Supported strategies are: {STRATEGIES}."
        )
    if topology is not None:
        _check_topology(topology)
    level = node_level(strategy, topology)
    if target and level != "STRICT_PACK":
        raise ValueError(
            f"_soft_target_node_id currently only works with STRICT_PACK but got {level}"
        )
    if target and NodeID.from_hex(target).is_nil():
        raise ValueError(f"Invalid hex ID of _soft_target_node_id, got {target}")
    _check_bundles(bundles)
    if selectors is not None:
        if len(bundles) != len(selectors):
            raise ValueError(
                f"Invalid bundle label selector {selectors}. The length of "
                "`bundle_label_selector` should equal the length of `bundles`."
            )
        _check_selectors(selectors)
    if lifetime not in (None, "detached"):
        raise ValueError(
            f"Placement group `lifetime` argument must be either `None` or 'detached'. "
            f"Got {lifetime}."
        )


def _check_topology(topology: Any) -> None:
    if not isinstance(topology, dict):
        raise ValueError(f"`topology_strategy` must be a dict, got {type(topology).__name__}.")
    if len(topology) > 2:
        raise ValueError(
            f"`topology_strategy` must contain 0, 1, or 2 entries: `{NODE_ID_LABEL}` plus an "
            f"optional topology label. Got {len(topology)} entries."
        )
    others = []
    for key, value in topology.items():
        if not isinstance(key, str) or not key:
            raise ValueError(f"`topology_strategy` keys must be non-empty strings, got {key!r}.")
        if value not in STRATEGIES:
            raise ValueError(
                f"Invalid topology strategy {value!r} for label {key!r}. "
                f"Supported strategies are: {STRATEGIES}."
            )
        if key != NODE_ID_LABEL:
            others.append(key)
            if value != "STRICT_PACK":
                raise ValueError(
                    f"Topology strategy {value!r} for label {key!r} is not supported yet; only "
                    "'STRICT_PACK' is supported for topology labels other than "
                    f"`{NODE_ID_LABEL}` for now."
                )
    if len(others) > 1:
        raise ValueError(
            "`topology_strategy` currently supports at most one topology label "
            f"other than `{NODE_ID_LABEL}`. Got {others}."
        )


def _check_bundles(bundles: Any) -> None:
    if not isinstance(bundles, list):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles)}.")
    if not bundles:
        raise ValueError(
            "Bundles must be a non-empty list of resource dictionaries. For example: "
            '`[{"CPU": 1.0}, {"GPU": 1.0}]`. Got empty list instead.'
        )
    for bundle in bundles:
        if (
            not isinstance(bundle, dict)
            or not all(isinstance(key, str) for key in bundle)
            or not all(isinstance(value, (int, float)) for value in bundle.values())
        ):
            raise ValueError(
                "Bundles must be a non-empty list of resource dictionaries. For example: "
                '`[{"CPU": 1.0}, {"GPU": 1.0}]`.'
            )
        if all(value == 0 for value in bundle.values()):
            raise ValueError(
                "Bundles cannot be an empty dictionary or resources with only 0 values. "
                f"Bundles: {bundles}"
            )
        if "object_store_memory" in bundle:
            warnings.warn(
                "Setting 'object_store_memory' for bundles is deprecated since it doesn't "
                "actually reserve the required object store memory.",
                DeprecationWarning,
                stacklevel=5,
            )


def _check_selectors(selectors: Any) -> None:
    if not isinstance(selectors, list):
        raise ValueError(
            f"Placement group bundle_label_selector must be a list, got {type(selectors)}."
        )
    for selector in selectors:
        if not isinstance(selector, dict) or not all(
            isinstance(key, str) and isinstance(value, str) for key, value in selector.items()
        ):
            raise ValueError(
                "Bundle label selector must be a list of string dictionary label selectors. For "
                'example: `[{ray.io/market_type": "spot"}, {"ray.io/accelerator-type": "A100"}]`.'
            )
        problem = _labels.check_selector(selector)
        if problem:
            raise ValueError(
                "Invalid label selector provided in bundle_label_selector list. "
                f"Detailed error: '{problem}'"
            )
    accelerators = [selector.get("ray.io/accelerator-type") for selector in selectors]
    domain = next((kind for kind in accelerators if kind in ("GB200", "GB300")), None)
    for selector, kind in zip(selectors, accelerators, strict=True):
        if domain is not None and kind != domain:
            raise ValueError(
                f"Invalid bundle label selector {selector}. GPU-domain scheduling requires all "
                f"bundles to have 'ray.io/accelerator-type: {domain}' in their label selector."
            )
