"""Twenty hosts at once: nothing in a cluster may need a moment for each pair of hosts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

import raymesh as ray
from raymesh.exceptions import ActorDiedError

HOSTS = 20


@ray.remote(num_cpus=1)
class Resident:
    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def length(self, data: bytes) -> int:
        return len(data)


def test_many_hosts_join_work_die_and_end(cluster: Callable[..., Any]) -> None:
    made = cluster({"num_cpus": 1})
    with ThreadPoolExecutor(8) as some:
        list(some.map(lambda _: made.add_node(num_cpus=1), range(HOSTS - 1)))
    made.wait_for_nodes()
    # Who has nothing to say to each other has no connection.
    quiet = psutil.Process(made.worker_nodes[0].pid)
    assert len(quiet.net_connections()) < 6

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def where() -> str:
        time.sleep(0.05)
        return str(ray.get_runtime_context().get_node_id())

    # A host that is slow to start a worker may get none: the others have done all by then.
    ran = ray.get([where.remote() for _ in range(3 * HOSTS)], timeout=60)
    assert len(set(ran)) > HOSTS // 2
    residents = [Resident.remote() for _ in range(HOSTS)]
    assert (
        len(set(ray.get([resident.node.remote() for resident in residents], timeout=60))) == HOSTS
    )
    data = ray.put(bytes(4 << 20))
    lengths = ray.get([resident.length.remote(data) for resident in residents], timeout=60)
    assert set(lengths) == {4 << 20}
    doomed = made.worker_nodes[-4:]
    for node in doomed:
        os.kill(node.pid, signal.SIGKILL)
    for node in doomed:
        made.remove_node(node, allow_graceful=False)
    made.wait_for_nodes()
    outcomes: list[bool] = []
    for resident in residents:
        try:
            outcomes.append(bool(ray.get(resident.node.remote(), timeout=60)))
        except ActorDiedError:
            outcomes.append(False)
    assert outcomes.count(False) == len(doomed)
