"""Rows about several hosts: `Cluster` of each system, on this machine.

Apart from the other bodies, because their session is a cluster. The driver is on the head; actors on the
other hosts do what is measured.
"""

from __future__ import annotations

import functools
import time

import numpy as np
import ray
from ray.cluster_utils import Cluster

from compat_tests.bench.bodies import body
from compat_tests.bench.catalog import (
    CALLS_FAR,
    FAR_ASYNC,
    FAR_SYNC,
    GIGABYTE_FAR,
    GIGABYTE_TLS,
    TO_HOSTS,
)
from compat_tests.bench.meter import Meter
from compat_tests.bench.pace import SETTLE_S

GIGABYTE = 10**9
SPREAD_BYTES = 10**8
HOSTS = 8
ROUNDS = 3


class Peer:
    def __init__(self):
        self.made = []

    def value(self):
        return b"ok"

    def make(self, size):
        # A reference: the object lies on this host, whoever asks for it.
        self.made.append(ray.put(np.ones(size, dtype=np.uint8)))
        return self.made

    def forget(self):
        self.made.clear()

    def read(self, box):
        begin = time.perf_counter()
        array = ray.get(box[0])
        seconds = time.perf_counter() - begin
        assert array[-1] == 1
        return seconds

    def calls(self, other, n):
        """Seconds of n calls, one after the other."""
        begin = time.perf_counter()
        for _ in range(n):
            ray.get(other.value.remote())
        return time.perf_counter() - begin

    def batch(self, other, n):
        """Seconds of n calls at once."""
        begin = time.perf_counter()
        ray.get([other.value.remote() for _ in range(n)])
        return time.perf_counter() - begin


@functools.cache
def cluster() -> Cluster:
    """Two hosts with room for some gigabytes, and this process as their driver.

    Neither system encrypts: Ray does not unless it is told to.
    """
    return two_hosts({"tls": False} if ray.__name__ == "raymesh" else {})


def end_cluster() -> None:
    """Ends the cluster that several rows share, if it is there."""
    ray.shutdown()
    if cluster.cache_info().currsize:
        cluster().shutdown()
        cluster.cache_clear()


def two_hosts(options: dict[str, bool]) -> Cluster:
    """The hosts are called near and far."""
    room = {"num_cpus": 1, "object_store_memory": 5 * GIGABYTE // 2}
    head = {**room, **options, "resources": {"near": 100}}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(**room, resources={"far": 100})
    ray.init(address=made.address, log_to_driver=False)
    return made


def at(resource: str):
    """An actor on the host that has the resource."""
    peer = ray.remote(num_cpus=0, resources={resource: 1})(Peer).remote()
    ray.get(peer.value.remote())
    return peer


@body(CALLS_FAR)
def calls_between_hosts(meter: Meter, _row: str) -> None:
    cluster()
    near, far = at("near"), at("far")
    time.sleep(SETTLE_S)
    ray.get(near.calls.remote(far, 50))
    for _ in range(ROUNDS):
        count = meter.pace.batch // 2
        meter.report(FAR_SYNC, count / ray.get(near.calls.remote(far, count)))
        count = 2 * meter.pace.batch
        meter.report(FAR_ASYNC, count / ray.get(near.batch.remote(far, count)))


@body(GIGABYTE_FAR)
def gigabyte_between_hosts(meter: Meter, row: str) -> None:
    cluster()
    gigabyte(meter, row)


@body(GIGABYTE_TLS)
def gigabyte_encrypted(meter: Meter, row: str) -> None:
    """raymesh with TLS, as it is unless told otherwise; Ray without, as it is."""
    end_cluster()
    made = two_hosts({})
    gigabyte(meter, row)
    ray.shutdown()
    made.shutdown()


def gigabyte(meter: Meter, row: str) -> None:
    near, far = at("near"), at("far")
    time.sleep(SETTLE_S)
    for number in range(ROUNDS + 1):
        box = ray.get(near.make.remote(GIGABYTE))
        seconds = ray.get(far.read.remote(box))
        # The first one finds memory that nobody has used yet.
        if number:
            meter.report(row, GIGABYTE / seconds / 1e9)
        del box
        ray.get(near.forget.remote())


@body(TO_HOSTS)
def spread_to_hosts(meter: Meter, row: str) -> None:
    started = cluster()
    names = [f"reader-{number}" for number in range(HOSTS)]
    room = {"num_cpus": 1, "object_store_memory": 4 * SPREAD_BYTES}
    nodes = [started.add_node(**room, resources={name: 1}) for name in names]
    started.wait_for_nodes()
    near, readers = at("near"), [at(name) for name in names]
    time.sleep(SETTLE_S)
    for number in range(ROUNDS + 1):
        box = ray.get(near.make.remote(SPREAD_BYTES))
        begin = time.perf_counter()
        ray.get([reader.read.remote(box) for reader in readers])
        if number:
            meter.report(row, (time.perf_counter() - begin) * 1e3)
        del box
        ray.get(near.forget.remote())
    del readers
    for node in nodes:
        started.remove_node(node)
