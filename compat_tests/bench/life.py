"""Rows about actors' creation and about what a session costs while it is there."""

from __future__ import annotations

import gc
import os
import statistics
import time

import ray

from compat_tests.bench.actors import Idle
from compat_tests.bench.bodies import body
from compat_tests.bench.meter import Meter, cpu_by_process, growth, memory_by_process, memory_of
from compat_tests.harness.case import SYSTEM_VARIABLE

LIVE_REFS = 20_000
IDLE_S = 2.0
MANY_ACTORS = {"raymesh": 1000, "ray": 40}
"""A thousand worker processes of Ray do not fit into the machine: the row is per actor."""


@body("actor creation to first reply")
def creation(meter: Meter, row: str) -> None:
    def create():
        ray.get(Idle.remote().pid.remote())

    for _ in range(3):
        create()
    meter.cost(row, create, per_second=1e3)


@body("memory per idle worker")
def idle_worker(meter: Meter, row: str) -> None:
    actors = [Idle.remote() for _ in range(4)]
    pids = ray.get([actor.pid.remote() for actor in actors])
    meter.report(row, statistics.mean(memory_of(pid) for pid in pids))


@body("memory per 10,000 live refs")
def live_refs(meter: Meter, row: str) -> None:
    warm = [ray.put(n) for n in range(1000)]
    del warm
    gc.collect()
    before = memory_by_process()
    refs = [ray.put(n) for n in range(LIVE_REFS)]
    after = memory_by_process()
    meter.report(row, growth(before, after) * 10_000 / len(refs))


@body("memory per actor of many, all called")
def many_actors(meter: Meter, row: str) -> None:
    count = MANY_ACTORS[os.environ[SYSTEM_VARIABLE]]
    before = sum(memory_by_process().values())
    actors = [Idle.remote() for _ in range(count)]
    pids = ray.get([actor.pid.remote() for actor in actors])
    assert len(set(pids)) == count
    meter.report(row, (sum(memory_by_process().values()) - before) / count)


@body("cpu of an idle session")
def idle_cpu(meter: Meter, row: str) -> None:
    actor = Idle.remote()
    ray.get([actor.pid.remote() for _ in range(100)])
    time.sleep(IDLE_S)
    before = cpu_by_process()
    time.sleep(IDLE_S)
    meter.report(row, growth(before, cpu_by_process()) / IDLE_S * 1000)
