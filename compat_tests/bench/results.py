"""What was measured, row by row, and what it was measured on."""

from __future__ import annotations

import datetime
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from compat_tests.bench.catalog import Row
from compat_tests.bench.figures import Spread, number, ratios
from compat_tests.bench.passes import Samples
from compat_tests.harness.systems import System

Passes = Mapping[int, Sequence[float]]

STATES = {
    "ahead": "ahead",
    "reached": "reached",
    "below": "below",
    "slower": "slower",
    "failed": "failed",
    "": "",
}
"""What has come out for a row, in the words that stand beside its goal."""

SHOWN = {System.RAY: "Ray", System.RAYMESH: "raymesh"}


@dataclass(frozen=True)
class Result:
    """One row, measured on both systems."""

    row: Row
    passes: Mapping[System, Passes]
    failures: Mapping[System, str]
    notes: Mapping[System, str]

    def spread(self, system: System) -> Spread | None:
        """Lowest, median and highest of what a system reached."""
        return Spread.of_passes(self.passes.get(system, {}))

    @cached_property
    def ratio(self) -> Spread | None:
        """How many times better raymesh is, over the passes; below 1 it is worse."""
        ray, raymesh = (self.passes.get(system, {}) for system in (System.RAY, System.RAYMESH))
        return Spread.of(ratios(ray, raymesh, higher_is_better=self.row.higher_is_better))

    @property
    def ratio_text(self) -> str:
        """The ratio as it is shown; a divisor of 0 in words."""
        if self.ratio is None:
            return "-"
        if math.isinf(self.ratio.median):
            return f"{'Ray' if self.row.higher_is_better else 'raymesh'} has 0"
        return f"{number(self.ratio.median)}x"

    @property
    def state(self) -> str:
        """One of `STATES`; nothing where nothing could be compared."""
        if self.ratio is None:
            return "failed" if self.failures else ""
        if self.ratio.median < 1:
            return "slower"
        if self.row.goal <= 1:
            return "ahead"
        return "reached" if self.ratio.median >= self.row.goal else "below"

    @property
    def remarks(self) -> list[str]:
        """What is special about this row's figures, by system."""
        return [f"{SHOWN[system]}: {text}" for system, text in self.notes.items()]


@dataclass
class Part:
    """One machine load: quiet, or with busy processes beside."""

    load: str
    results: Sequence[Result]
    samples: Mapping[System, Samples]
    others: Mapping[str, Any] = field(default_factory=dict)

    def others_rows(self, separator: str) -> list[tuple[str, str, float | None, float | None, str]]:
        """(system, shape, its median, raymesh's, failure) for what a user would otherwise pick."""
        ours = {result.row.name: result.spread(System.RAYMESH) for result in self.results}
        rows: list[tuple[str, str, float | None, float | None, str]] = []
        for name, answer in self.others.items():
            for shape, values in answer["values"].items():
                own = ours.get(shape.split(separator)[0])
                rows.append(
                    (name, shape, statistics.median(values), own.median if own else None, "")
                )
            if answer.get("failure"):
                rows.append((name, "", None, None, answer["failure"].strip().splitlines()[-1]))
        return rows


def results_of(rows: Sequence[Row], samples: Mapping[System, Samples]) -> list[Result]:
    """One result per row."""
    return [
        Result(
            row,
            {system: found.values.get(row.name, {}) for system, found in samples.items()},
            {
                s: found.failures[row.key]
                for s, found in samples.items()
                if row.key in found.failures
            },
            {s: found.notes[row.name] for s, found in samples.items() if row.name in found.notes},
        )
        for row in rows
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def machine() -> dict[str, Any]:
    """Where and with what it was measured."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: _version(name) for name in ("ray", "raymesh", "numpy", "torch")},
    }


def _plain(spread: Spread | None) -> dict[str, float | None] | None:
    """JSON has no infinity: None stands where a divisor was 0."""
    if spread is None:
        return None
    values = {"min": spread.low, "median": spread.median, "max": spread.high}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _row_as_json(result: Result, load: str) -> dict[str, Any]:
    row = result.row
    measured = {
        system.value: {
            **(_plain(result.spread(system)) or {}),
            "passes": [list(values) for values in passes.values()],
        }
        for system, passes in result.passes.items()
    }
    return {
        "name": row.name,
        "group": row.group,
        "load": load,
        "unit": row.unit,
        "higher_is_better": row.higher_is_better,
        **measured,
        "ratio": _plain(result.ratio),
        "ratio_text": result.ratio_text,
        "goal": row.goal,
        "state": result.state,
        "notes": {system.value: text for system, text in result.notes.items()},
        "failures": {system.value: text for system, text in result.failures.items()},
    }


def as_json(
    parts: Sequence[Part], settings: Mapping[str, Any], where: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    return {
        "machine": dict(where),
        "settings": dict(settings),
        "rows": [_row_as_json(result, part.load) for part in parts for result in part.results],
        "curves": {
            part.load: {system.value: found.curves for system, found in part.samples.items()}
            for part in parts
        },
        "others": {part.load: dict(part.others) for part in parts},
    }
