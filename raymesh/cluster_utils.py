"""`Cluster`: several hosts on one machine, each an agent process of its own, for tests and for trying things.

As ``ray.cluster_utils``: the names and the meaning of the arguments are Ray's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from raymesh import _address
from raymesh._launch import Launched, launch
from raymesh._networks import Namespace, Network

_OPTIONS = (
    "num_cpus",
    "num_gpus",
    "resources",
    "labels",
    "object_store_memory",
    "node_name",
    "port",
    "journal",
    "patience",
    "network",
    "tls",
)
_OF_HEAD = ("include_dashboard", "dashboard_port")
_IGNORED = ("_system_config", "enable_object_reconstruction", "dashboard_agent_listen_port")


class ClusterNode:
    """A host of a `Cluster`."""

    def __init__(self, launched: Launched, *, head: bool, network: Namespace | None = None) -> None:
        self._launched = launched
        self.head = head
        self.network = network
        """Its network namespace, if it has one: faults can be made there."""

    @property
    def address(self) -> str:
        """IP:PORT where other hosts reach it."""
        return self._launched.address

    @property
    def pid(self) -> int:
        """Of the agent's process."""
        return self._launched.pid

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._launched.process.poll() is None

    def kill_all_processes(self, check_alive: bool = True, allow_graceful: bool = False) -> None:
        """Ends the host: by SIGTERM if `allow_graceful`, else by SIGKILL."""
        if check_alive and not self.is_alive():
            raise RuntimeError(f"the host with pid {self.pid} has ended already")
        if allow_graceful:
            self._launched.process.terminate()
        else:
            self._launched.process.kill()
        self._launched.process.wait()
        if leash := self._launched.process.stdin:
            leash.close()
        _address.remove(self.pid)
        self._launched.log.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"ClusterNode({self.address}, pid={self.pid}, head={self.head})"


class Cluster:
    """Starts with a head if `initialize_head`, then grows and shrinks by `add_node` and `remove_node`.

    `head_node_args` are the head's options, as of `add_node`. With `connect`, this process becomes a
    driver of the cluster. With `shutdown_at_exit` the hosts end with this process, however it ends.

    With `network_namespaces`, each host lives in a network namespace of its own, with an address and a cable;
    `ClusterNode.network` cuts, drops, resets, throttles and delays. This process stays where it is. Needs root.
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: Mapping[str, Any] | None = None,
        shutdown_at_exit: bool = True,
        network_namespaces: bool = False,
    ) -> None:
        self.head_node: ClusterNode | None = None
        self.worker_nodes: list[ClusterNode] = []
        self.connected = False
        self._leashed = shutdown_at_exit
        self._network = Network() if network_namespaces else None
        if not initialize_head and connect:
            raise RuntimeError("Cannot connect to uninitialized cluster.")
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()
        if shutdown_at_exit:
            import atexit

            atexit.register(self.shutdown)

    @property
    def address(self) -> str:
        """What `init(address=...)` takes.

        Raises RuntimeError while there is no head.
        """
        if self.head_node is None:
            raise RuntimeError("The cluster has no head yet: call add_node() first.")
        return self.head_node._launched.join

    gcs_address = address

    @property
    def webui_url(self) -> str | None:
        """HOST:PORT of the job server, if there is one."""
        jobs = self.head_node._launched.jobs if self.head_node else ""
        return jobs.partition("://")[2] or None

    def connect(self, namespace: str | None = None) -> dict[str, Any]:
        """Makes this process a driver of the cluster."""
        import raymesh

        context = raymesh.init(address=self.address, namespace=namespace, ignore_reinit_error=True)
        self.connected = True
        return dict(context.address_info)

    def add_node(self, wait: bool = True, **node_args: Any) -> ClusterNode:
        """Starts one more host; the first one is the head.

        Takes `num_cpus`, `num_gpus`, `resources`, `labels`, `object_store_memory` (bytes) and `node_name`.
        Without `num_cpus` it has one CPU. A head that has a `port` and a folder for its `journal` can be
        started again, after `remove_node(head, allow_graceful=False)`, with the same ones: the others wait for it
        for `patience` seconds. A head with `include_dashboard` has a job server, at `dashboard_port`. `network`: the
        namespace of a host that was removed, to come back there. The host has joined when this returns, and is in
        `nodes()`, whatever `wait` says.
        """
        known = (*_OPTIONS, *_OF_HEAD, *_IGNORED)
        if unknown := [name for name in node_args if name not in known]:
            raise TypeError(
                f"add_node() does not know {', '.join(unknown)}; it knows {', '.join(known)}"
            )
        options = {name: value for name, value in node_args.items() if name in _OPTIONS}
        options.setdefault("num_cpus", 1)
        options.setdefault("num_gpus", 0)
        options.setdefault("object_store_memory", 150 * 1024 * 1024)
        options.setdefault("journal", "none")
        join = None if self.head_node is None else self.address
        if node_args.get("include_dashboard"):
            options["jobs_at"] = ("127.0.0.1", node_args.get("dashboard_port") or 0)
        namespace: Namespace | None = options.pop("network", None)
        if namespace is None and self._network is not None:
            namespace = self._network.add()
        if namespace:
            options.setdefault("listen", namespace.address)
            options["within"] = namespace.command
        launched = launch(join=join, leashed=self._leashed, **options)
        node = ClusterNode(launched, head=join is None, network=namespace)
        if join is None:
            self.head_node = node
        else:
            self.worker_nodes.append(node)
        return node

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """Ends a host; `allow_graceful=False`: by SIGKILL."""
        node.kill_all_processes(check_alive=False, allow_graceful=allow_graceful)
        if node is self.head_node:
            self.head_node = None
        elif node in self.worker_nodes:
            self.worker_nodes.remove(node)

    def list_all_nodes(self) -> list[ClusterNode]:
        """The hosts that were added and not removed, the head first."""
        return [*([self.head_node] if self.head_node else []), *self.worker_nodes]

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Waits until the cluster has exactly the hosts that were added and not removed.

        Raises TimeoutError after `timeout` seconds. This process must be a driver of the cluster.
        """
        import raymesh

        deadline = time.monotonic() + timeout
        wanted = len(self.list_all_nodes())
        while sum(node["Alive"] for node in raymesh.nodes()) != wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Timed out while waiting for nodes to join: {wanted} are wanted."
                )
            time.sleep(0.05)

    def shutdown(self) -> None:
        """Ends all hosts."""
        # All at once, but for the head: who is left of many would be told of the end of each.
        for node in self.worker_nodes:
            node._launched.process.terminate()
        for node in reversed(self.list_all_nodes()):
            self.remove_node(node, allow_graceful=node.is_alive())
        if self._network:
            self._network.close()
