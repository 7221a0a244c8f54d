"""How things are measured inside a running program."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from compat_tests.bench.figures import quantile
from compat_tests.bench.pace import Pace

TAIL = [step / 20 for step in range(81)]
"""Where a latency curve is drawn, in powers of ten of the share that is slower: 0 is all calls, 3 is
one in a thousand."""
FEWEST_SAMPLES = 20


@dataclass
class Meter:
    """Measures one body and collects the values of its rows."""

    pace: Pace
    values: dict[str, list[float]] = field(default_factory=dict)
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Distributions for the plots: (power of ten of the slower share, value)."""
    notes: dict[str, str] = field(default_factory=dict)
    """Where a row was measured differently from what its name says, and how."""

    def report(self, row: str, value: float) -> None:
        """Add one sample to a row."""
        self.values.setdefault(row, []).append(value)

    def part_of(self, row: str, count: int) -> int:
        """How many of what a row has `count` of are used at this pace; notes if it is not all."""
        part = self.pace.part_of(count)
        if part < count:
            self.note(row, f"with {part:,} of {count:,}; the figure is scaled up")
        return part

    def note(self, row: str, text: str) -> None:
        """Say what is special about the figures of a row on this system."""
        self.notes[row] = text

    def rate(self, row: str, function: Callable[[], object], multiplier: float = 1) -> None:
        """Operations per second; a call of `function` counts for `multiplier` operations."""
        for seconds in self._rounds(row, function):
            self.report(row, multiplier / seconds)

    def cost(self, row: str, function: Callable[[], object], *, per_second: float) -> None:
        """Time of one call, in units of which a second has `per_second`."""
        for seconds in self._rounds(row, function):
            self.report(row, seconds * per_second)

    def _rounds(self, row: str, function: Callable[[], object]) -> Iterator[float]:
        """Seconds per call, one value a round, as `ray microbenchmark` takes them.

        The first call is never measured, since it may start processes. After that there is one round at
        least, and more as far as the row's time allows.
        """
        pace, clock = self.pace, time.perf_counter
        end = clock() + pace.row_s
        _, count = _round(function, pace.warm_up_s, 1)
        step = count // 10 + 1
        for number in range(pace.rounds):
            begin = clock()
            per_call, count = _round(function, pace.round_s, step)
            yield per_call
            if 2 * clock() - begin > end:
                if number == 0 and count == 1:
                    self.note(row, "a single call, after one to warm up")
                break

    def distribution(self, name: str, function: Callable[[], object]) -> list[float]:
        """Microseconds of each of many single calls, sorted; keeps their curve for the plot."""
        pace, clock = self.pace, time.perf_counter_ns
        _round(function, pace.warm_up_s, 1)
        gc.collect()
        times: list[float] = []
        end = clock() + int(pace.row_s * 1e9)
        while len(times) < pace.samples:
            begin = clock()
            if begin > end and len(times) >= FEWEST_SAMPLES:
                break
            function()
            times.append((clock() - begin) / 1000)
        times.sort()
        known = [tail for tail in TAIL if 10**tail <= len(times)]
        self.curves[name] = [(tail, quantile(times, 1 - 10**-tail)) for tail in known]
        return times


def _round(function: Callable[[], object], seconds: float, step: int) -> tuple[float, int]:
    """Call `function` for a while; seconds per call, and how many calls it were."""
    clock = time.perf_counter
    begin, count = clock(), 0
    while True:
        for _ in range(step):
            function()
        count += step
        passed = clock() - begin
        if passed >= seconds:
            return passed / count, count
