"""Rows about calls: the loops of `ray microbenchmark`, with smaller batches where Ray takes long."""

from __future__ import annotations

import multiprocessing

import ray

from compat_tests.bench.bodies import body
from compat_tests.bench.catalog import FAN_OUT
from compat_tests.bench.meter import Meter, quantile

BATCH = 1000
"""Calls in flight in the asynchronous rows."""
CLIENTS = 4
"""Clients in the rows with several of them."""
SERVERS = max(1, multiprocessing.cpu_count() // 2)


@ray.remote(num_cpus=0)
class Server:
    def value(self):
        return b"ok"

    def value_of(self, x):
        return b"ok"

    def tasks(self, n):
        ray.get([small.remote() for _ in range(n)])


@ray.remote
class AsyncServer:
    async def value(self):
        return b"ok"

    async def value_of(self, x):
        return b"ok"


@ray.remote(num_cpus=0)
class Client:
    def __init__(self, servers):
        self.servers = servers

    def calls(self, n):
        refs = []
        for server in self.servers:
            refs.extend([server.value.remote() for _ in range(n)])
        ray.get(refs)

    def calls_with_argument(self, n):
        argument = ray.put(0)
        refs = []
        for server in self.servers:
            refs.extend([server.value_of.remote(argument) for _ in range(n)])
        ray.get(refs)


@ray.remote
def small():
    return b"ok"


@ray.remote
def call_all(servers, n):
    ray.get([servers[i % len(servers)].value.remote() for i in range(n)])


def _sync(meter: Meter, row: str, server) -> None:
    meter.rate(row, lambda: ray.get(server.value.remote()))


def _async(meter: Meter, row: str, server) -> None:
    def batch():
        ray.get([server.value.remote() for _ in range(BATCH)])

    meter.rate(row, batch, BATCH)


@body("1:1 actor calls sync")
def actor_sync(meter: Meter, row: str) -> None:
    _sync(meter, row, Server.remote())


@body("1:1 actor calls async")
def actor_async(meter: Meter, row: str) -> None:
    _async(meter, row, Server.remote())


@body("1:1 actor calls concurrent")
def actor_concurrent(meter: Meter, row: str) -> None:
    _async(meter, row, Server.options(max_concurrency=16).remote())


@body("1:1 async-actor calls sync")
def async_actor_sync(meter: Meter, row: str) -> None:
    _sync(meter, row, AsyncServer.remote())


@body("1:1 async-actor calls async")
def async_actor_async(meter: Meter, row: str) -> None:
    _async(meter, row, AsyncServer.remote())


@body("1:1 async-actor calls with args async")
def async_actor_arguments(meter: Meter, row: str) -> None:
    server = AsyncServer.remote()

    def batch():
        ray.get([server.value_of.remote(i) for i in range(BATCH)])

    meter.rate(row, batch, BATCH)


def _one_to_many(meter: Meter, row: str, servers) -> None:
    client = Client.remote(servers)
    meter.rate(row, lambda: ray.get(client.calls.remote(BATCH)), BATCH * len(servers))


@body("1:n actor calls async")
def one_to_many(meter: Meter, row: str) -> None:
    _one_to_many(meter, row, [Server.remote() for _ in range(SERVERS)])


@body("1:n async-actor calls async")
def one_to_many_async(meter: Meter, row: str) -> None:
    _one_to_many(meter, row, [AsyncServer.remote() for _ in range(SERVERS)])


def _many_to_many(meter: Meter, row: str, servers) -> None:
    def batch():
        ray.get([call_all.remote(servers, BATCH) for _ in range(CLIENTS)])

    meter.rate(row, batch, CLIENTS * BATCH)


@body("n:n actor calls async")
def many_to_many(meter: Meter, row: str) -> None:
    _many_to_many(meter, row, [Server.remote() for _ in range(SERVERS)])


@body("n:n async-actor calls async")
def many_to_many_async(meter: Meter, row: str) -> None:
    _many_to_many(meter, row, [AsyncServer.options(num_cpus=0).remote() for _ in range(SERVERS)])


@body("n:n actor calls with arg async")
def many_to_many_argument(meter: Meter, row: str) -> None:
    clients = [Client.remote([Server.remote()]) for _ in range(SERVERS)]

    def batch():
        ray.get([client.calls_with_argument.remote(BATCH) for client in clients])

    meter.rate(row, batch, BATCH * len(clients))


@body("single client tasks sync")
def tasks_sync(meter: Meter, row: str) -> None:
    meter.rate(row, lambda: ray.get(small.remote()))


def _task_batch() -> None:
    ray.get([small.remote() for _ in range(BATCH)])


@body("single client tasks async")
def tasks_async(meter: Meter, row: str) -> None:
    meter.rate(row, _task_batch, BATCH)


@body("single client tasks and get batch")
def tasks_batch(meter: Meter, row: str) -> None:
    meter.rate(row, _task_batch)


@body("multi client tasks async")
def tasks_of_many_clients(meter: Meter, row: str) -> None:
    servers = [Server.remote() for _ in range(CLIENTS)]

    def batch():
        ray.get([server.tasks.remote(BATCH) for server in servers])

    meter.rate(row, batch, BATCH * CLIENTS)


@body("actor call latency")
def latency(meter: Meter, _: str) -> None:
    server = Server.remote()
    times = meter.distribution("actor call", lambda: ray.get(server.value.remote()))
    for label, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        meter.report(f"actor call {label}", quantile(times, share))


def _fan_out(count: int):
    def measure(meter: Meter, row: str) -> None:
        servers = [Server.remote() for _ in range(count)]
        ray.get([server.value.remote() for server in servers])

        def fan():
            ray.get([server.value.remote() for server in servers])

        meter.cost(row, fan, per_second=1e6)

    return measure


for _count in FAN_OUT:
    body(f"fan-out to {_count} actors")(_fan_out(_count))
