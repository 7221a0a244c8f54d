"""Rows about many actors: calls that go out to all of them, and what they weigh."""

from __future__ import annotations

import os
import time

import ray

from compat_tests.bench.actors import Idle
from compat_tests.bench.bodies import body
from compat_tests.bench.catalog import CROWD, FAN_OUT, MANY, fan_out
from compat_tests.bench.meter import Meter
from compat_tests.bench.usage import memory_by_process
from compat_tests.harness.case import SYSTEM_VARIABLE

AT_ONCE = 10
"""Actors that are being created at the same time."""
CROWD_OF = {"raymesh": MANY, "ray": 100}
"""A thousand worker processes of Ray, at 60 MB and half a second each, fit neither into memory nor
into the time that there is."""


def gather(members: list, count: int, limit_s: float) -> None:
    """Add members until there are `count`, as far as the time allows."""
    end = time.perf_counter() + limit_s
    while len(members) < count and time.perf_counter() < end:
        new = [Idle.remote() for _ in range(min(AT_ONCE, count - len(members)))]
        try:
            ray.get(
                [member.pid.remote() for member in new], timeout=max(1, end - time.perf_counter())
            )
        except ray.exceptions.GetTimeoutError:
            return
        members.extend(new)


def _call_all(members: list) -> None:
    ray.get([member.pid.remote() for member in members])


def _fan_out(meter: Meter, count: int, members: list) -> None:
    row = fan_out(count)
    if not members:
        raise TimeoutError(f"no actor lived after {meter.pace.creation_s:g} s")
    if len(members) < count:
        meter.note(row, f"to {len(members)} actors: no more lived in {meter.pace.creation_s:g} s")
    meter.cost(row, lambda: _call_all(members), per_second=1e6)


def _fan_out_to(count: int):
    def measure(meter: Meter, _: str) -> None:
        members: list = []
        gather(members, count, meter.pace.creation_s)
        _fan_out(meter, count, members)

    return measure


for _count in FAN_OUT[:-1]:
    body(fan_out(_count))(_fan_out_to(_count))


@body(CROWD)
def crowd(meter: Meter, _: str) -> None:
    """One population serves all rows: with Ray it takes a minute to come into being."""
    weight, rate = f"memory per actor of {MANY:,}", f"calls to {MANY:,} actors, one each"
    largest, wanted = FAN_OUT[-1], CROWD_OF[os.environ[SYSTEM_VARIABLE]]
    empty = sum(memory_by_process().values())
    members: list = []
    begin = time.perf_counter()
    gather(members, largest, meter.pace.creation_s)
    _fan_out(meter, largest, members)
    gather(members, wanted, meter.pace.creation_s - (time.perf_counter() - begin))
    if len(members) < MANY:
        for row in (weight, rate):
            meter.note(row, f"with {len(members)} actors")
    meter.rate(rate, lambda: _call_all(members), len(members))
    meter.report(weight, (sum(memory_by_process().values()) - empty) / len(members))
