"""Rows about actors' creation and about what a session costs while it is there."""

from __future__ import annotations

import gc
import statistics
import time

import ray

from compat_tests.bench import pace
from compat_tests.bench.actors import Idle
from compat_tests.bench.bodies import body
from compat_tests.bench.meter import Meter
from compat_tests.bench.usage import (
    cpu_by_process,
    growth,
    memory_by_process,
    memory_of,
    session_pids,
)

LIVE_REFS = 10_000
IDLE_S, WINDOWS = 0.8, 5
"""Several windows, so that what happens once is not taken for what goes on all the time."""


@body("actor creation to first reply")
def creation(meter: Meter, row: str) -> None:
    def create():
        ray.get(Idle.remote().pid.remote())

    create()  # The first worker of a session comes with what it imports.
    meter.cost(row, create, per_second=1e3)


@body("memory per idle worker")
def idle_worker(meter: Meter, row: str) -> None:
    actors = [Idle.remote() for _ in range(4)]
    pids = ray.get([actor.pid.remote() for actor in actors])
    meter.report(row, statistics.mean(memory_of(pid) for pid in pids))


@body("memory per 10,000 live refs")
def live_refs(meter: Meter, row: str) -> None:
    warm = [ray.put(n) for n in range(meter.pace.part_of(1000))]
    del warm
    gc.collect()
    before = memory_by_process()
    refs = [ray.put(n) for n in range(meter.part_of(row, LIVE_REFS))]
    after = memory_by_process()
    meter.report(row, growth(before, after) * 10_000 / len(refs))


@body("cpu of an idle session")
def idle_cpu(meter: Meter, row: str) -> None:
    actor = Idle.remote()
    ray.get([actor.pid.remote() for _ in range(100)])
    time.sleep(pace.SETTLE_S)
    # Looking costs CPU time too, and this process is one of the session: it comes last, then first.
    pids = session_pids()
    for _ in range(WINDOWS):
        before, begin = cpu_by_process(reversed(pids)), time.perf_counter()
        time.sleep(IDLE_S)
        passed = time.perf_counter() - begin
        meter.report(row, growth(before, cpu_by_process(pids)) / passed * 1000)
