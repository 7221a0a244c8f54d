"""`raymesh status`: the hosts of a cluster and what they have, what waits and why, and whose programs run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import click

from raymesh import _cluster, _native

_SHORT = 12
"""Digits of a node id that are shown; so many tell hosts apart."""
_WIDE = 160
"""Columns where the output is no terminal."""


def report() -> dict[str, Any]:
    """All that `status` knows, as `--json` prints it. This process must be a driver of the cluster."""
    hosts = [_host(it) for it in _native.describe_cluster()]
    status = _native.cluster_status()
    me = (_native.context()["node_id"], os.getpid())
    return {
        "hosts": hosts,
        "waiting": status["waiting"],
        "placement_groups": status["groups"],
        "programs": [
            {"job_id": it["job_id"].hex(), "pid": it["pid"], "host": it["host_name"]}
            for it in status["drivers"]
            if (it["node_id"], it["pid"]) != me
        ],
    }


def _host(it: dict[str, Any]) -> dict[str, Any]:
    host: dict[str, Any] = {
        "name": it["host_name"],
        "node_id": it["node_id"].hex(),
        "address": _cluster.address_of(it),
        "state": "alive" if it["alive"] else "dead",
    }
    if it["draining"]:
        host["state"] = "draining"
        host["reason"], host["seconds_left"] = it["draining"]
    if it["end"]:
        _, host["reason"] = it["end"]
    total, free = it["total"], it["available"]
    host["labels"] = dict(it["labels"])
    host["resources"] = {
        name: {"used": round(total[name] - free.get(name, 0.0), 4), "total": total[name]}
        for name in sorted(total)
        if not name.startswith("node:")
    }
    host["object_store"] = {"used": it["store_used"], "total": it["store_capacity"]}
    host["workers"] = it["workers"]
    return host


def show(found: dict[str, Any], *, verbose: bool) -> None:
    """Prints a report for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    has_labels = any(host["labels"] for host in found["hosts"])
    labels = ["labels"] if has_labels else []
    table = Table("host", "node id", "address", "state", "used", "object store", "workers", *labels)
    for host in found["hosts"]:
        lives = host["state"] != "dead"
        node_id = host["node_id"] if verbose else host["node_id"][:_SHORT]
        amounts = _amounts(host["resources"]) if lives else ""
        store = _gigabytes(host["object_store"]) if lives else ""
        workers = str(host["workers"]) if lives else ""
        shown = [f"{key}={value}" for key, value in sorted(host["labels"].items())]
        row = [host["name"], node_id, host["address"], _state(host), amounts, store, workers]
        table.add_row(*row, *(["\n".join(shown)] if has_labels else []))
    console.print(table, markup=False)
    _list("Waiting for a place:", map(_demand, found["waiting"]))
    _list("Placement groups that wait for a place:", map(_group, found["placement_groups"]))
    _list(
        "Programs:",
        (f"job {it['job_id']}: pid {it['pid']} on {it['host']}" for it in found["programs"]),
    )
    if not found["waiting"] and not found["placement_groups"]:
        click.echo("Nothing waits for a place.")


def _list(title: str, lines: Iterable[str]) -> None:
    shown = [f"  {line}" for line in lines]
    if shown:
        click.echo("\n".join([title, *shown]))


def _state(host: Mapping[str, Any]) -> str:
    if host["state"] == "draining":
        left = host["seconds_left"]
        return (
            f"leaves ({host['reason']})"
            if left is None
            else f"leaves in {left:.0f} s ({host['reason']})"
        )
    reason = host.get("reason")
    return f"{host['state']} ({reason})" if reason else str(host["state"])


def _amounts(resources: Mapping[str, Mapping[str, float]]) -> str:
    shown = dict(resources)
    memory = shown.pop("memory", None)
    parts = [f"{it['used']:g} of {it['total']:g} {name}" for name, it in shown.items()]
    return "\n".join([*parts, *([f"{_gigabytes(memory)} memory"] if memory else [])])


def _gigabytes(amount: Mapping[str, float]) -> str:
    return f"{amount['used'] / 1e9:.1f} of {amount['total'] / 1e9:.1f} GB"


def _demand(it: Mapping[str, Any]) -> str:
    counts = [
        f"{it[what]} {what if it[what] > 1 else what[:-1]}"
        for what in ("tasks", "actors")
        if it[what]
    ]
    return f"{' and '.join(counts)}, {_shape(it['resources'])} each: {it['why']}"


def _group(it: Mapping[str, Any]) -> str:
    bundles: dict[str, int] = {}
    for bundle in it["bundles"]:
        shape = _shape(bundle)
        bundles[shape] = bundles.get(shape, 0) + 1
    of = ", ".join(f"{count} x {shape}" for shape, count in bundles.items())
    return f"{it['count']} of {it['strategy']} {of}: {it['why']}"


def _shape(resources: Mapping[str, float]) -> str:
    return (
        "{" + ", ".join(f"{name}: {amount:g}" for name, amount in sorted(resources.items())) + "}"
    )


def to_json(found: dict[str, Any]) -> str:
    """The report for programs."""
    return json.dumps(found, indent=2)
