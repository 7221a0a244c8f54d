"""Plots as SVG text. Colours are classes, so that the page's style sheet decides about light and dark.

- `Scale`     values to pixels, on a logarithmic axis
- `bars`      ratios to the right and left of 1, with goal marks
- `dots`      a few values per row on one axis
- `lines`     curves
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from compat_tests.bench.figures import number

WIDTH = 960
LABELS = 300
RIGHT = 120
ROW = 22
TOP = 30


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis from `low` to `high`, drawn from pixel `begin` to pixel `end`."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], begin: float, end: float) -> Scale:
        """An axis that shows all values, a little beyond them; what has no logarithm is left out."""
        known = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
        low, high = min(known), max(known)
        if high / low < 10:
            low, high = low / 2, high * 2
        return cls(low / 1.25, high * 1.25, begin, end)

    def at(self, value: float) -> float:
        """The pixel of a value; the ends of the axis for what is beyond them."""
        held = min(max(value, self.low), self.high)
        share = math.log(held / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """Powers of ten; on a short axis, where they are few, also twice and five times as much."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        step = max(1, len(powers) // 8)
        factors = (1,) if math.log10(self.high / self.low) > 2.2 else (1, 2, 5)
        found = [
            factor * 10.0**power for power in powers if power % step == 0 for factor in factors
        ]
        return [tick for tick in found if self.low <= tick <= self.high]


@dataclass(frozen=True)
class Bar:
    """A ratio: how many times better something is."""

    label: str
    value: float
    text: str
    look: str
    goal: float = 1.0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Dots:
    """Values on one row, each with a look and what it says when pointed at."""

    label: str
    values: Sequence[tuple[float, str, str]]


@dataclass(frozen=True)
class Line:
    """A curve through points."""

    look: str
    points: Sequence[tuple[float, float]]
    hint: str


def _text(x: float, y: float, text: str, look: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{look}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{look}"/>'


def _svg(height: float, title: str, parts: Iterable[str], width: float = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _upright_grid(scale: Scale, bottom: float, suffix: str) -> list[str]:
    parts = []
    for tick in scale.ticks:
        x = scale.at(tick)
        parts.append(_line(x, TOP - 6, x, bottom, "one" if tick == 1 else "grid"))
        parts.append(_text(x, TOP - 12, f"{number(tick)}{suffix}", "tick", "middle"))
    return parts


def bars(title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Bars that begin at 1, group by group, each with its goal as a mark and its range as a whisker."""
    every = [bar for _, group in groups for bar in group]
    reach = [edge for bar in every for edge in (bar.value, bar.goal, bar.low, bar.high)]
    scale = Scale.around([1.0, *reach], LABELS, WIDTH - RIGHT)
    parts: list[str] = []
    y = float(TOP)
    for name, group in groups:
        if name:
            y += ROW * 0.4
            parts.append(_text(0, y + ROW * 0.7, name, "group"))
            y += ROW
        for bar in group:
            parts.append(_bar(scale, bar, y))
            y += ROW
    return _svg(y + 8, title, [*_upright_grid(scale, y + 2, "x"), *parts])


def _bar(scale: Scale, bar: Bar, y: float) -> str:
    middle = y + ROW / 2
    here, one = scale.at(bar.value), scale.at(1)
    left, width = min(here, one), max(abs(here - one), 1.5)
    hint = escape(f"{bar.label}: {bar.text}")
    box = f'x="{left:.1f}" y="{y + 4:.1f}" width="{width:.1f}" height="{ROW - 8}" rx="2"'
    parts = [
        _text(LABELS - 10, middle + 4, bar.label, "label", "end"),
        f'<rect {box} class="bar {bar.look}"><title>{hint}</title></rect>',
    ]
    end = max(here, one)
    if 0 < bar.low < bar.high:
        low, high = scale.at(bar.low), scale.at(bar.high)
        parts.append(_line(low, middle, high, middle, "whisker"))
        end = max(end, high)
    if bar.goal > 1:
        mark = scale.at(bar.goal)
        parts.append(_line(mark, y + 1, mark, y + ROW - 1, "goal"))
        end = max(end, mark) if mark > here - 30 else end
    parts.append(_text(end + 8, middle + 4, bar.text, "value"))
    return "".join(parts)


def dots(title: str, rows: Sequence[Dots], suffix: str) -> str:
    """One row each, its values as dots on a line."""
    scale = Scale.around(
        [1.0, *(value for row in rows for value, _, _ in row.values)], LABELS, WIDTH - 40
    )
    bottom = TOP + ROW * len(rows)
    parts = _upright_grid(scale, bottom, suffix)
    for index, row in enumerate(rows):
        y = TOP + ROW * index + ROW / 2
        parts.append(_text(LABELS - 10, y + 4, row.label, "label", "end"))
        places = [scale.at(value) for value, _, _ in row.values]
        parts.append(_line(min(places), y, max(places), y, "between"))
        for place, (_, look, hint) in zip(places, row.values, strict=True):
            parts.append(
                f'<circle cx="{place:.1f}" cy="{y:.1f}" r="5" class="dot {look}">'
                f"<title>{escape(f'{row.label}: {hint}')}</title></circle>"
            )
    return _svg(bottom + 8, title, parts)


def lines(
    title: str,
    curves: Sequence[Line],
    *,
    say: Callable[[float], str],
    ticks: Sequence[tuple[float, str]],
    width: float = WIDTH / 2 - 12,
    height: float = 300,
) -> str:
    """Curves over an axis with given ticks (the caller takes logarithms); upwards logarithmic.

    `say` puts a value of the upright axis into words.
    """
    left, right, bottom = 60.0, width - 24, height - 26
    tall = Scale.around((y for line in curves for _, y in line.points), bottom, 14)
    places = [x for line in curves for x, _ in line.points]
    first, last = min(places), max(places)
    wide = (right - left) / ((last - first) or 1)

    def x_of(x: float) -> float:
        return left + (x - first) * wide

    parts: list[str] = []
    for tick in tall.ticks:
        y = tall.at(tick)
        parts.append(_line(left, y, right, y, "grid"))
        parts.append(_text(left - 8, y + 4, say(tick), "tick", "end"))
    for x, text in ticks:
        if first <= x <= last:
            parts.append(_line(x_of(x), 10, x_of(x), bottom, "grid"))
            parts.append(_text(x_of(x), height - 8, text, "tick", "middle"))
    for line in curves:
        known = [(x_of(x), tall.at(y), y) for x, y in line.points if y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in known)
        parts.append(f'<polyline points="{path}" class="line {line.look}"/>')
        if len(known) <= 12:
            for x, y, value in known:
                hint = escape(f"{line.hint}: {say(value)}")
                parts.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="dot {line.look}">'
                    f"<title>{hint}</title></circle>"
                )
    return _svg(height, title, parts, width)
