"""Labels of hosts, and conditions on them: the syntax of `label_selector=`, with Ray's answers to what is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

Rule = tuple[str, str, list[str]]
"""Key, what it has to be (`in`, `not in`, `present`, `absent`), values."""

_NAME = r"([a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?)"
_PREFIX = re.compile(rf"^({_NAME}?(\.{_NAME}?)*)$")
_CONDITION = re.compile(rf"^!?(?:in)?\({_NAME}(?:, ?{_NAME})*\)$|^!?{_NAME}$")
_ALPHANUMERIC = (
    "63 chars or less beginning and ending with an alphanumeric character ([a-z0-9A-Z]) with "
    "dashes (-), underscores (_),dots (.), and alphanumerics between."
)


def check_selector(selector: Any) -> str | None:
    """What is wrong with a `label_selector`, or None."""
    for key, value in (selector or {}).items():
        problem = _check_key(key)
        if problem:
            return problem
        if value is not None and value != "" and not re.fullmatch(_CONDITION, value):
            return (
                f"Invalid label selector value `{value}`. The label selector value should contain "
                "optional operators and a label value. Supported operators are: ! and {'in'}. "
                f"Value must be {_ALPHANUMERIC}"
            )
    return None


def _check_key(key: str) -> str | None:
    name = key
    if "/" in key:
        prefix, name = key.rsplit("/", 1)
        if len(prefix) > 253 or not re.fullmatch(_PREFIX, prefix):
            return (
                f"Invalid label key prefix `{prefix}`. Prefix must be a series of DNS labels "
                "separated by dots (.), not longer than 253 characters in total."
            )
    if len(name) > 63 or not re.fullmatch(_NAME, name):
        return f"Invalid label key name `{name}`. Name must be {_ALPHANUMERIC}"
    return None


def check_fallback(strategies: Any) -> str | None:
    """What is wrong with a `fallback_strategy`, or None."""
    for strategy in strategies or []:
        if not isinstance(strategy, dict):
            return "Each element in fallback_strategy must be a dictionary."
        if not strategy:
            return "Empty dictionary found in `fallback_strategy`."
        for option in strategy:
            if option != "label_selector":
                return (
                    f"Unsupported option found: '{option}'. "
                    "Only ['label_selector'] is currently supported."
                )
        selector = strategy["label_selector"]
        if selector and not isinstance(selector, dict):
            return 'The value of "label_selector" must be a dictionary.'
        problem = check_selector(selector)
        if problem:
            return problem
    return None


def rules(selector: dict[str, str] | None) -> list[Rule]:
    """A selector as conditions."""
    return [_rule(key, value or "") for key, value in (selector or {}).items()]


def _rule(key: str, value: str) -> Rule:
    negated = value.startswith("!")
    value = value.removeprefix("!")
    values = [item.strip() for item in value.removeprefix("in(").strip("()").split(",")]
    return key, "not in" if negated else "in", values


_FROM_ENVIRONMENT = {
    "ray.io/market-type": "RAY_NODE_MARKET_TYPE",
    "ray.io/availability-region": "RAY_NODE_REGION",
    "ray.io/availability-zone": "RAY_NODE_ZONE",
    "ray.io/node-group": "RAY_NODE_TYPE_NAME",
}


def of_host(given: Mapping[str, str] | None, resources: dict[str, float]) -> dict[str, str]:
    """All labels of a host: those that Ray gives by default, and the user's."""
    labels = {
        key: os.environ[name] for key, name in _FROM_ENVIRONMENT.items() if os.environ.get(name)
    }
    prefix = "accelerator_type:"
    kinds = [name.removeprefix(prefix) for name in resources if name.startswith(prefix)]
    if kinds and resources.get("GPU"):
        labels["ray.io/accelerator-type"] = kinds[0]
    return {**labels, **(given or {})}
