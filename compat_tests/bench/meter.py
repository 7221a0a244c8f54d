"""How things are measured inside a running program."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from compat_tests.harness.systems import RUN_VARIABLE, processes_of


@dataclass(frozen=True)
class Pace:
    """How long measuring takes."""

    warm_up_s: float
    round_s: float
    rounds: int
    samples: int
    """Single calls timed for a latency distribution."""


FULL = Pace(warm_up_s=0.5, round_s=1.0, rounds=3, samples=10_000)
QUICK = Pace(warm_up_s=0.2, round_s=0.5, rounds=1, samples=2_000)


@dataclass
class Meter:
    """Measures one body and collects the values of its rows."""

    pace: Pace
    values: dict[str, list[float]] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    """Quantiles of distributions, for the plots."""

    def report(self, row: str, value: float) -> None:
        """Add one sample to a row."""
        self.values.setdefault(row, []).append(value)

    def rate(self, row: str, function: Callable[[], object], multiplier: float = 1) -> None:
        """Operations per second; a call of `function` counts for `multiplier` operations."""
        for seconds in self._rounds(function):
            self.report(row, multiplier / seconds)

    def cost(self, row: str, function: Callable[[], object], *, per_second: float) -> None:
        """Time of one call, in units of which a second has `per_second`."""
        for seconds in self._rounds(function):
            self.report(row, seconds * per_second)

    def _rounds(self, function: Callable[[], object]) -> Iterable[float]:
        """Seconds per call, one value a round, as `ray microbenchmark` takes them."""
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < self.pace.warm_up_s:
            function()
            count += 1
        step = count // 10 + 1
        for _ in range(self.pace.rounds):
            begin, count = time.perf_counter(), 0
            while time.perf_counter() - begin < self.pace.round_s:
                for _ in range(step):
                    function()
                count += step
            yield (time.perf_counter() - begin) / count

    def distribution(self, name: str, function: Callable[[], object]) -> list[float]:
        """Microseconds of each of many single calls, sorted; keeps their quantiles for the plot."""
        clock = time.perf_counter_ns
        for _ in range(200):
            function()
        gc.collect()
        times = []
        for _ in range(self.pace.samples):
            begin = clock()
            function()
            times.append((clock() - begin) / 1000)
        times.sort()
        self.curves[name] = [quantile(times, q / 1000) for q in range(0, 1001, 5)]
        return times


def quantile(ordered: list[float], share: float) -> float:
    """The value below which a share of the ordered values lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def memory_of(pid: int) -> float:
    """Proportional set size of a process in MB: shared pages count in parts. 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1000
    return 0.0


def session_processes() -> list[psutil.Process]:
    """All processes of this program's session, itself included."""
    run_id = os.environ.get(RUN_VARIABLE, "")
    return [psutil.Process(), *processes_of(run_id)]


def memory_by_process() -> dict[int, float]:
    """MB of each process of the session, by pid."""
    return {process.pid: memory_of(process.pid) for process in session_processes()}


def cpu_by_process() -> dict[int, float]:
    """CPU seconds that each living process of the session has used, by pid."""
    used = {}
    for process in session_processes():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        used[process.pid] = times.user + times.system
    return used


def growth(before: dict[int, float], after: dict[int, float]) -> float:
    """By how much the processes that were there all the time have grown together."""
    return sum(after[pid] - before[pid] for pid in before.keys() & after.keys())
