"""The same shapes on what a user would otherwise pick. Runs one of them, named on the command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compat_tests.bench import pace
from compat_tests.bench.meter import Meter

WORKERS = 2
BY = ", by "
"""Between a row's name and another way to write the same."""


def small(_: object = None) -> bytes:
    """The task."""
    return b"ok"


def process_pool_executor(meter: Meter) -> None:
    """concurrent.futures."""
    from concurrent.futures import ProcessPoolExecutor

    count = meter.pace.batch
    with ProcessPoolExecutor(WORKERS) as pool:

        def batch() -> None:
            for future in [pool.submit(small) for _ in range(count)]:
                future.result()

        meter.rate("single client tasks sync", lambda: pool.submit(small).result())
        meter.rate("single client tasks async", batch, count)


def multiprocessing_pool(meter: Meter) -> None:
    """multiprocessing.Pool."""
    import multiprocessing

    count = meter.pace.batch
    with multiprocessing.Pool(WORKERS) as pool:

        def batch() -> None:
            for result in [pool.apply_async(small) for _ in range(count)]:
                result.get()

        meter.rate("single client tasks sync", lambda: pool.apply(small))
        meter.rate("single client tasks async", batch, count)
        # What one would rather write with a pool: still a message back and forth for each call.
        by_map = f"single client tasks async{BY}map"
        meter.rate(by_map, lambda: pool.map(small, range(count), chunksize=1), count)


class Server:
    """An actor of Dask."""

    def value(self) -> bytes:
        return b"ok"


def dask_distributed(meter: Meter) -> None:
    """Dask distributed: submits and actors."""
    from distributed import Client, LocalCluster

    count = meter.pace.batch
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def batch() -> None:
            client.gather([client.submit(small, pure=False) for _ in range(count)])

        meter.rate("single client tasks sync", lambda: client.submit(small, pure=False).result())
        meter.rate("single client tasks async", batch, count)
        server = client.submit(Server, actor=True).result()

        def calls() -> None:
            for future in [server.value() for _ in range(count)]:
                future.result()

        meter.rate("1:1 actor calls sync", lambda: server.value().result())
        meter.rate("1:1 actor calls async", calls, count)


def monarch(meter: Meter) -> None:
    """Monarch: one actor in one process."""
    from monarch.actor import Actor, endpoint, this_host

    class Remote(Actor):
        @endpoint
        async def value(self) -> bytes:
            return b"ok"

    count = meter.pace.batch
    server = this_host().spawn_procs(per_host={"gpus": 1}).spawn("server", Remote)

    def calls() -> None:
        for future in [server.value.call_one() for _ in range(count)]:
            future.get()

    meter.rate("1:1 actor calls sync", lambda: server.value.call_one().get())
    meter.rate("1:1 actor calls async", calls, count)


OTHERS: dict[str, Callable[[Meter], None]] = {
    "ProcessPoolExecutor": process_pool_executor,
    "multiprocessing.Pool": multiprocessing_pool,
    "Dask distributed": dask_distributed,
    "Monarch": monarch,
}


@contextmanager
def _reported(name: str, meter: Meter) -> Iterator[None]:
    failure = None
    try:
        yield
    except ImportError as error:
        failure = f"not installed ({error.name})"
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    answer = {"body": name, "values": meter.values, "curves": {}, "failure": failure}
    with open(os.environ["BENCH_ANSWERS"], "a", encoding="utf-8") as answers:
        answers.write(json.dumps(answer) + "\n")


def main(name: str) -> None:
    """Measure one of the others."""
    meter = Meter(pace.current())
    with _reported(name, meter):
        OTHERS[name](meter)


if __name__ == "__main__":
    main(sys.argv[1])
