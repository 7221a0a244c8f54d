"""Runs `search.py` over four hosts while hosts and the head are killed and one joins, and compares its answer.

As root, with iproute2 and nftables, each host lives in a network namespace of its own, and one loses its cable.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from raymesh.cluster_utils import Cluster

SEARCH = str(Path(__file__).with_name("search.py"))
PORT = 6397
HOST = {"num_cpus": 2, "object_store_memory": 200_000_000}


class Trouble:
    """What happens to the cluster, one thing each time that so many candidates have been trained."""

    def __init__(self, cluster: Cluster, journal: str, say: Callable[[str], None]) -> None:
        self.cluster, self.say = cluster, say
        self.head = {**HOST, "num_cpus": 1, "port": PORT, "journal": journal}
        self.cluster.add_node(**self.head)
        for _ in range(3):
            self.cluster.add_node(**HOST)
        self.steps = iter(
            [
                self.kill_a_host,
                self.kill_the_head,
                self.add_a_host,
                self.lose_a_host,
                self.kill_the_head,
            ]
        )

    def kill_a_host(self) -> None:
        self.say("a host is killed")
        self.cluster.remove_node(self.cluster.worker_nodes[0], allow_graceful=False)

    def kill_the_head(self) -> None:
        self.say("the head is killed")
        head = self.cluster.head_node
        assert head is not None
        where = {"network": head.network} if head.network else {}
        self.cluster.remove_node(head, allow_graceful=False)
        time.sleep(1)
        self.cluster.add_node(**self.head, **where)
        self.say("the head is started again")

    def add_a_host(self) -> None:
        self.say("a host joins")
        self.cluster.add_node(**HOST)

    def lose_a_host(self) -> None:
        node = self.cluster.worker_nodes[0]
        if node.network:
            self.say("a host loses its cable")
            node.network.cut()
        else:
            self.say("another host is killed")
            self.cluster.remove_node(node, allow_graceful=False)

    def next(self) -> None:
        step = next(self.steps, None)
        if step:
            step()


def main() -> int:
    console = Console()
    began = time.monotonic()

    def say(text: str) -> None:
        console.print(
            f"[dim]{time.monotonic() - began:6.1f} s[/]  {text}", highlight=False, soft_wrap=True
        )

    alone = json.loads(subprocess.check_output([sys.executable, SEARCH, "--alone"]))
    say(f"alone, in one process: {alone}")
    apart = os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc", "nft")))
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(tempfile.TemporaryDirectory())
        cluster = Cluster(shutdown_at_exit=False, network_namespaces=apart)
        stack.callback(cluster.shutdown)
        trouble = Trouble(cluster, journal, say)
        say(f"four hosts run{', each in a network namespace of its own' if apart else ''}")
        found = follow(cluster, trouble, say)
    say(f"over hosts that died: {found}")
    same = found == alone
    console.print("[green]the same answer[/]" if same else "[red]another answer[/]")
    return 0 if same else 1


def follow(cluster: Cluster, trouble: Trouble, say: Callable[[str], None]) -> Any:
    """Runs the search, and makes trouble as it goes on; its answer."""
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    search = subprocess.Popen(
        [sys.executable, SEARCH], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert search.stdout is not None
    try:
        trained = 0
        last = ""
        working = threading.Lock()

        def act() -> None:
            with working:
                trouble.next()

        threads = []
        for line in search.stdout:
            last = line
            if not line.startswith("round"):
                continue
            say(line.strip())
            trained += 1
            if trained % 4 == 0:
                threads.append(threading.Thread(target=act))
                threads[-1].start()
        for thread in threads:
            thread.join()
        if search.wait():
            raise RuntimeError(f"the search failed with code {search.returncode}")
        return json.loads(last)
    finally:
        search.kill()
        search.wait()


if __name__ == "__main__":
    sys.exit(main())
