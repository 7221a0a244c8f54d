"""Rows about calls: the loops of `ray microbenchmark`; see `pace` for how many are in flight."""

from __future__ import annotations

import multiprocessing

import ray

from compat_tests.bench.bodies import body
from compat_tests.bench.figures import quantile
from compat_tests.bench.meter import Meter

BATCH_OF_TASKS = 1000
"""In the row that counts batches."""
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
    count = meter.pace.batch

    def batch():
        ray.get([server.value.remote() for _ in range(count)])

    meter.rate(row, batch, count)


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
    server, count = AsyncServer.remote(), meter.pace.batch

    def batch():
        ray.get([server.value_of.remote(i) for i in range(count)])

    meter.rate(row, batch, count)


def _one_to_many(meter: Meter, row: str, servers) -> None:
    client, count = Client.remote(servers), meter.pace.batch
    meter.rate(row, lambda: ray.get(client.calls.remote(count)), count * len(servers))


@body("1:n actor calls async")
def one_to_many(meter: Meter, row: str) -> None:
    _one_to_many(meter, row, [Server.remote() for _ in range(SERVERS)])


@body("1:n async-actor calls async")
def one_to_many_async(meter: Meter, row: str) -> None:
    _one_to_many(meter, row, [AsyncServer.remote() for _ in range(SERVERS)])


def _many_to_many(meter: Meter, row: str, servers) -> None:
    count = meter.pace.batch

    def batch():
        ray.get([call_all.remote(servers, count) for _ in range(CLIENTS)])

    meter.rate(row, batch, CLIENTS * count)


@body("n:n actor calls async")
def many_to_many(meter: Meter, row: str) -> None:
    _many_to_many(meter, row, [Server.remote() for _ in range(SERVERS)])


@body("n:n async-actor calls async")
def many_to_many_async(meter: Meter, row: str) -> None:
    _many_to_many(meter, row, [AsyncServer.options(num_cpus=0).remote() for _ in range(SERVERS)])


@body("n:n actor calls with arg async")
def many_to_many_argument(meter: Meter, row: str) -> None:
    clients, count = [Client.remote([Server.remote()]) for _ in range(SERVERS)], meter.pace.batch

    def batch():
        ray.get([client.calls_with_argument.remote(count) for client in clients])

    meter.rate(row, batch, count * len(clients))


@body("single client tasks sync")
def tasks_sync(meter: Meter, row: str) -> None:
    meter.rate(row, lambda: ray.get(small.remote()))


def _run_tasks(count: int) -> None:
    ray.get([small.remote() for _ in range(count)])


@body("single client tasks async")
def tasks_async(meter: Meter, row: str) -> None:
    count = meter.pace.batch
    meter.rate(row, lambda: _run_tasks(count), count)


@body("single client tasks and get batch")
def tasks_batch(meter: Meter, row: str) -> None:
    count = meter.part_of(row, BATCH_OF_TASKS)
    meter.rate(row, lambda: _run_tasks(count), count / BATCH_OF_TASKS)


@body("multi client tasks async")
def tasks_of_many_clients(meter: Meter, row: str) -> None:
    servers, count = [Server.remote() for _ in range(CLIENTS)], meter.pace.batch

    def batch():
        ray.get([server.tasks.remote(count) for server in servers])

    meter.rate(row, batch, count * CLIENTS)


@body("actor call latency")
def latency(meter: Meter, _: str) -> None:
    server = Server.remote()
    times = meter.distribution("actor call", lambda: ray.get(server.value.remote()))
    for label, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        name = f"actor call {label}"
        meter.report(name, quantile(times, share))
        if (1 - share) * len(times) < 1:
            meter.note(name, f"the slowest of {len(times)} calls: no more fit into the time")
