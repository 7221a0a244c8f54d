"""Rows about objects: put, get, wait."""

from __future__ import annotations

import numpy as np
import ray

from compat_tests.bench.bodies import body
from compat_tests.bench.catalog import SIZES
from compat_tests.bench.meter import Meter

REFS = 10_000
WAITED = 1000


@ray.remote
def small():
    return b"ok"


@ray.remote
def put_small(count):
    for _ in range(count):
        ray.put(0)


@ray.remote
def put_large():
    for _ in range(10):
        ray.put(np.zeros(10 * 1024 * 1024, dtype=np.int64))


@ray.remote
def make_refs(count):
    return [ray.put(1) for _ in range(count)]


@body("single client get calls (Plasma Store)")
def get_small(meter: Meter, row: str) -> None:
    ref = ray.put(0)
    meter.rate(row, lambda: ray.get(ref))


@body("single client put calls (Plasma Store)")
def put_calls(meter: Meter, row: str) -> None:
    meter.rate(row, lambda: ray.put(0))


@body("multi client put calls (Plasma Store)")
def put_calls_of_many(meter: Meter, row: str) -> None:
    count = meter.pace.part_of(100)
    meter.rate(row, lambda: ray.get([put_small.remote(count) for _ in range(10)]), 10 * count)


def _put_rate(meter: Meter, row: str, array) -> None:
    meter.rate(row, lambda: ray.put(array), array.nbytes / 1e9)


@body("put of 100 MB")
def put_100_mb(meter: Meter, row: str) -> None:
    # Ones, not zeros: pages that were never written read from the cache, and flatter both systems.
    _put_rate(meter, row, np.ones(100_000_000, dtype=np.uint8))


@body("single client put gigabytes")
def put_gigabytes(meter: Meter, row: str) -> None:
    _put_rate(meter, row, np.zeros(100 * 1024 * 1024, dtype=np.int64))


@body("multi client put gigabytes")
def put_gigabytes_of_many(meter: Meter, row: str) -> None:
    volume = 10 * 10 * 10 * 1024 * 1024 * 8 / 1e9
    meter.rate(row, lambda: ray.get([put_large.remote() for _ in range(10)]), volume)


@body("single client get object containing 10k refs")
def get_many_refs(meter: Meter, row: str) -> None:
    count = meter.part_of(row, REFS)
    holder = make_refs.remote(count)
    ray.wait([holder])
    meter.rate(row, lambda: ray.get(holder), count / REFS)


@body("single client wait 1k refs")
def wait_for_many(meter: Meter, row: str) -> None:
    count = meter.part_of(row, WAITED)

    def drain():
        pending = [small.remote() for _ in range(count)]
        fetch = True
        while pending:
            _, pending = ray.wait(pending, fetch_local=fetch)
            fetch = False

    meter.rate(row, drain, count / WAITED)


def _put_of(size: int):
    def measure(meter: Meter, row: str) -> None:
        array = np.ones(size, dtype=np.uint8)
        meter.cost(row, lambda: ray.put(array), per_second=1e6)

    return measure


def _get_of(size: int):
    def measure(meter: Meter, row: str) -> None:
        ref = ray.put(np.ones(size, dtype=np.uint8))
        meter.cost(row, lambda: ray.get(ref), per_second=1e6)

    return measure


for _name, _size in SIZES.items():
    body(f"put {_name}")(_put_of(_size))
    body(f"get {_name}")(_get_of(_size))
