"""Clusters for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.leaks import Belongings, leaked_since


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Starts a cluster with this process as driver: a host for each set of options, the head first."""
    import raymesh
    from raymesh.cluster_utils import Cluster

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = Belongings.now()
    made: list[Any] = []

    def start(*hosts: dict[str, Any], connect: bool = True) -> Any:
        cluster = Cluster(shutdown_at_exit=False)
        made.append(cluster)
        for options in hosts:
            cluster.add_node(**options)
        if connect:
            raymesh.init(address=cluster.address, log_to_driver=False)
        return cluster

    yield start
    raymesh.shutdown()
    for cluster in made:
        cluster.shutdown()
    left = leaked_since(before)
    assert not left, "left behind:\n  " + "\n  ".join(left)
    assert [path.name for path in tmp_path.glob("raymesh/*.json")] == []
