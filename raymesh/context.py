"""What `init` returns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from raymesh import _native


class RayContext(Mapping[str, Any]):
    """The runtime that was started: read it as a mapping, or leave it with `with`, which ends it."""

    def __init__(self, info: dict[str, Any]) -> None:
        from raymesh import RAY_VERSION

        self.dashboard_url = ""
        self.python_version = ".".join(map(str, sys.version_info[:3]))
        self.ray_version = RAY_VERSION
        self.ray_commit = "raymesh"
        self.address_info = info

    def disconnect(self) -> None:
        """Ends the runtime."""
        from raymesh import _session

        _session.shutdown()

    def __enter__(self) -> RayContext:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.disconnect()

    def __getitem__(self, key: str) -> Any:
        return self.address_info[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.address_info)

    def __len__(self) -> int:
        return len(self.address_info)

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = {"Python": self.python_version, "Ray API": self.ray_version}
        cells = "".join(f"<tr><th>{key}</th><td>{value}</td></tr>" for key, value in rows.items())
        return f"<table><caption>raymesh</caption>{cells}</table>"

    def __repr__(self) -> str:
        return (
            f"RayContext(dashboard_url={self.dashboard_url!r}, "
            f"python_version={self.python_version!r}, ray_version={self.ray_version!r}, "
            f"ray_commit={self.ray_commit!r})"
        )


def address_info(ip_address: str | None) -> dict[str, Any]:
    """Ray's keys; None for what raymesh has no need of."""
    from raymesh._cluster import node_ip_address

    context = _native.context()
    return {
        "node_ip_address": ip_address or node_ip_address(),
        "redis_address": None,
        "object_store_address": None,
        "raylet_socket_name": None,
        "webui_url": "",
        "session_dir": context["session_name"],
        "metrics_export_port": -1,
        "gcs_address": "local",
        "address": "local",
        "dashboard_agent_listen_port": -1,
        "node_id": context["node_id"].hex(),
    }
