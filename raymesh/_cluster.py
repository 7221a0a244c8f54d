"""What the cluster has: `nodes`, `cluster_resources`, `available_resources`."""

from __future__ import annotations

from typing import Any

from raymesh import _native

_address: str | None = None


def node_ip_address() -> str:
    """The address of this host; asked from the kernel once."""
    global _address
    if _address is None:
        from raymesh import _machine

        _address = _machine.ip_address()
    return _address


def _hosts() -> list[dict[str, Any]]:
    if not _native.is_running():
        from raymesh.exceptions import RaySystemError

        raise RaySystemError(
            "Ray has not been started yet. Call ray.init() before asking about the cluster."
        )
    return _native.describe_cluster()


def nodes() -> list[dict[str, Any]]:
    """One dict for each host, with Ray's keys."""
    return [_node(host) for host in _hosts()]


def _node(host: dict[str, Any]) -> dict[str, Any]:
    from raymesh import _machine

    resources = _total(host)
    # As in Ray, a host that is being drained is alive like the others.
    reason, message = host["end"] or (0, "")
    node_id = host["node_id"].hex()
    address = address_of(host) or node_ip_address()
    return {
        "NodeID": node_id,
        "Alive": host["alive"],
        "NodeManagerAddress": address,
        "NodeManagerHostname": _machine.host_name(),
        "NodeManagerPort": 0,
        "ObjectManagerPort": 0,
        "ObjectStoreSocketName": "",
        "RayletSocketName": "",
        "MetricsExportPort": -1,
        "MetricsAgentPort": -1,
        "DashboardAgentListenPort": -1,
        # As given to `init(_node_name=...)`.
        "NodeName": host["host_name"] or address,
        "RuntimeEnvAgentPort": 0,
        "DeathReason": reason,
        "DeathReasonMessage": message,
        "alive": host["alive"],
        "Resources": resources if host["alive"] else {},
        "Labels": {"ray.io/node-id": node_id, **dict(host["labels"])},
    }


def address_of(host: dict[str, Any]) -> str:
    """The IP address of a host; "" if it has none among its resources."""
    names = (name.removeprefix("node:") for name in host["total"] if name.startswith("node:"))
    return next((name for name in names if not name.startswith("__")), "")


def cluster_resources() -> dict[str, float]:
    """The resources of all hosts together."""
    return _sum({**_total(host), **_bundles(host, 2)} for host in _hosts() if host["alive"])


def available_resources() -> dict[str, float]:
    """The resources of all hosts that nobody holds now."""
    return _sum({**_available(host), **_bundles(host, 3)} for host in _hosts() if host["alive"])


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """The resources of each host, by its node id."""
    return _per_node(_total, 2)


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """The resources of each host that nobody holds now, by its node id."""
    return _per_node(_available, 3)


def _per_node(amounts: Any, which: int) -> dict[str, dict[str, float]]:
    return {
        host["node_id"].hex(): _sum([amounts(host), _bundles(host, which)])
        for host in _hosts()
        if host["alive"]
    }


_USER = 0.001
_BUNDLE = 1000.0
"""How much of `bundle` Ray gives each bundle, so that demands for nothing else have something to ask for."""


def _bundles(host: dict[str, Any], which: int) -> dict[str, float]:
    """What bundles on the host hold (`which` 2) or have free (3), by Ray's names."""
    amounts: dict[str, float] = {}
    for bundle in host["bundles"]:
        group, index = bundle[0].hex(), bundle[1]
        used = bundle[4] * _USER if which == 3 else 0.0
        for name, amount in {**bundle[which], "bundle": _BUNDLE - used}.items():
            amounts[f"{name}_group_{index}_{group}"] = amount
            whole = f"{name}_group_{group}"
            amounts[whole] = amounts.get(whole, 0.0) + amount
    return amounts


def _total(host: dict[str, Any]) -> dict[str, float]:
    return {**host["total"], "object_store_memory": float(host["store_capacity"])}


def _available(host: dict[str, Any]) -> dict[str, float]:
    free = host["store_capacity"] - host["store_used"]
    return {**host["available"], "object_store_memory": float(max(free, 0))}


def _sum(parts: Any) -> dict[str, float]:
    amounts: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            amounts[name] = amounts.get(name, 0.0) + float(amount)
    # As in Ray, what is used up is not listed.
    return {name: amount for name, amount in amounts.items() if amount}
