"""Medians, ratios, and what they were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from compat_tests.bench.catalog import Row
from compat_tests.bench.passes import Samples
from compat_tests.harness.systems import System


@dataclass(frozen=True)
class Result:
    """One row, measured on both systems."""

    row: Row
    ray: list[float]
    raymesh: list[float]
    failures: Mapping[System, str]

    @property
    def medians(self) -> tuple[float | None, float | None]:
        """Of Ray and of raymesh."""
        both = [
            statistics.median(samples) if samples else None for samples in (self.ray, self.raymesh)
        ]
        return both[0], both[1]

    @property
    def ratio(self) -> float | None:
        """How many times better raymesh is; below 1 it is worse."""
        ray, raymesh = self.medians
        if ray is None or raymesh is None:
            return None
        if self.row.higher_is_better:
            return raymesh / ray if ray else None
        # An idle session that used no measurable CPU time: a tick is 10 ms.
        return ray / raymesh if raymesh > 0 else (float("inf") if ray > 0 else 1.0)

    @property
    def reached(self) -> bool | None:
        """Whether the goal was reached; None where nothing could be compared."""
        return None if self.ratio is None else self.ratio >= self.row.goal


def results_of(rows: Sequence[Row], samples: Mapping[System, Samples]) -> list[Result]:
    """One result per row."""
    empty = Samples()
    ray, raymesh = (samples.get(system, empty) for system in (System.RAY, System.RAYMESH))
    return [
        Result(
            row,
            ray.values.get(row.name, []),
            raymesh.values.get(row.name, []),
            {
                system: found.failures[row.key]
                for system, found in ((System.RAY, ray), (System.RAYMESH, raymesh))
                if row.key in found.failures
            },
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
        "versions": {name: _version(name) for name in ("ray", "raymesh", "numpy")},
    }


def as_json(
    results: Sequence[Result],
    samples: Mapping[System, Samples],
    others: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    return {
        "machine": machine(),
        "settings": dict(settings),
        "rows": [
            {
                "name": result.row.name,
                "group": result.row.group,
                "unit": result.row.unit,
                "higher_is_better": result.row.higher_is_better,
                "goal": result.row.goal,
                "ray": result.ray,
                "raymesh": result.raymesh,
                "ray_median": result.medians[0],
                "raymesh_median": result.medians[1],
                "ratio": result.ratio if result.ratio != float("inf") else None,
                "reached": result.reached,
                "failures": {system.value: text for system, text in result.failures.items()},
            }
            for result in results
        ],
        "curves": {system.value: found.curves for system, found in samples.items()},
        "others": dict(others),
    }
