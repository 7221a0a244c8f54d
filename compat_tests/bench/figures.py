"""The arithmetic of the benchmark: medians, spreads, ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of the ordered values lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Spread:
    """A figure that was taken several times."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Of values as they are; None of nothing."""
        return cls(min(values), statistics.median(values), max(values)) if values else None

    @classmethod
    def of_passes(cls, passes: Mapping[int, Sequence[float]]) -> Spread | None:
        """The median counts each pass once, however many samples it has; the ends are of all samples."""
        taken = [values for values in passes.values() if values]
        if not taken:
            return None
        everything = [value for values in taken for value in values]
        median = statistics.median(statistics.median(values) for values in taken)
        return cls(min(everything), median, max(everything))


def times_better(reference: float, own: float, *, higher_is_better: bool) -> float:
    """How many times better `own` is; below 1 it is worse.

    Infinite where the divisor is 0, and 1 where both are 0: whoever shows it has to put it in words.
    """
    above, below = (own, reference) if higher_is_better else (reference, own)
    if below <= 0:
        return math.inf if above > 0 else 1.0
    return max(above, 0.0) / below


def ratios(
    reference: Mapping[int, Sequence[float]],
    own: Mapping[int, Sequence[float]],
    *,
    higher_is_better: bool,
) -> list[float]:
    """One ratio for each pass in which both were measured: what drifts from pass to pass drifts for both."""
    both = [number for number in sorted(reference) if reference[number] and own.get(number)]
    return [
        times_better(
            statistics.median(reference[number]),
            statistics.median(own[number]),
            higher_is_better=higher_is_better,
        )
        for number in both
    ]


def number(value: float | None) -> str:
    """Three significant digits, with thousands separated; above 100, whole."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.1g}"


def duration(microseconds: float) -> str:
    """A time in the unit that suits it."""
    for bound, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= bound * 0.9995:
            return f"{microseconds / bound:.3g} {unit}"
    return f"{number(microseconds)} us"


def short(value: float) -> str:
    """Three digits and a letter, where there is little room."""
    for bound, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= bound * 0.9995:
            return f"{value / bound:.3g}{letter}"
    return number(value)
