"""The rows of the benchmark. Nothing here imports Ray, so that the reporting side can read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measure that both systems are compared by."""

    name: str
    group: str
    unit: str
    goal: float = 1.0
    """By which factor raymesh is to be better than Ray."""
    higher_is_better: bool = True
    heavy: bool = False
    """Takes long or much memory: not part of a quick run."""
    body: str = ""
    """The measuring function's key; rows with the same body are measured together."""

    @property
    def key(self) -> str:
        return self.body or self.name


def _rates(group: str, unit: str, *rows: tuple[str, float]) -> list[Row]:
    return [Row(name, group, unit, goal) for name, goal in rows]


def _costs(group: str, unit: str, *rows: tuple[str, float, str]) -> list[Row]:
    return [
        Row(name, group, unit, goal, higher_is_better=False, body=body) for name, goal, body in rows
    ]


CALLS = "calls/s"
SIZES: dict[str, int] = {
    "1 KB": 10**3,
    "10 KB": 10**4,
    "100 KB": 10**5,
    "1 MB": 10**6,
    "10 MB": 10**7,
    "100 MB": 10**8,
    "1 GB": 10**9,
}
"""Payloads in bytes."""

FAN_OUT = (1, 10, 100)
"""Numbers of actors that one call goes out to."""

ROWS: list[Row] = [
    *_costs(
        "start",
        "s",
        ("init to first result", 20, "start"),
        ("process start until imported", 1, "start"),
        ("process start to first result", 1, "start"),
    ),
    *_rates(
        "actor calls",
        CALLS,
        ("1:1 actor calls sync", 60),
        ("1:1 actor calls async", 50),
        ("1:1 actor calls concurrent", 1),
        ("1:n actor calls async", 1),
        ("n:n actor calls async", 20),
        ("n:n actor calls with arg async", 1),
        ("1:1 async-actor calls sync", 30),
        ("1:1 async-actor calls async", 30),
        ("1:1 async-actor calls with args async", 1),
        ("1:n async-actor calls async", 1),
        ("n:n async-actor calls async", 1),
    ),
    *_costs(
        "actor call latency",
        "us",
        ("actor call p50", 1, "actor call latency"),
        ("actor call p99", 1, "actor call latency"),
        ("actor call p99.9", 1, "actor call latency"),
    ),
    *_rates(
        "tasks",
        "tasks/s",
        ("single client tasks sync", 60),
        ("single client tasks async", 40),
        ("multi client tasks async", 1),
    ),
    *_rates("tasks", "batches/s", ("single client tasks and get batch", 1)),
    *_rates(
        "objects",
        CALLS,
        ("single client get calls (Plasma Store)", 50),
        ("single client put calls (Plasma Store)", 100),
        ("multi client put calls (Plasma Store)", 1),
        ("single client get object containing 10k refs", 10),
        ("single client wait 1k refs", 40),
    ),
    *_rates(
        "objects",
        "GB/s",
        ("put of 100 MB", 4),
        ("single client put gigabytes", 1),
        ("multi client put gigabytes", 1),
    ),
    *[
        Row(f"put {size}", "put by size", "us", 1, False, heavy=number >= 10**9)
        for size, number in SIZES.items()
    ],
    *[
        Row(f"get {size}", "get by size", "us", 1, False, heavy=number >= 10**9)
        for size, number in SIZES.items()
    ],
    *[
        Row(f"fan-out to {count} actors", "fan-out", "us", 1, False, heavy=count >= 100)
        for count in FAN_OUT
    ],
    Row("actor creation to first reply", "life", "ms", 20, False),
    Row("memory per 10,000 live refs", "memory", "MB", 2, False),
    Row("memory per idle worker", "memory", "MB", 2, False),
    Row("memory per actor of many, all called", "memory", "MB", 1, False, heavy=True),
    Row("cpu of an idle session", "memory", "ms/s", 1, False),
]


FRESH_GROUPS = ("memory",)
"""Groups that are measured in a session of their own, where no other row has left its traces."""


def select(words: tuple[str, ...], *, quick: bool) -> list[Row]:
    """The rows whose name or group contains one of the words; a quick run leaves heavy ones out."""
    chosen = [row for row in ROWS if not (quick and row.heavy)]
    if words:
        lowered = [word.lower() for word in words]
        chosen = [row for row in chosen if any(w in _text(row) for w in lowered)]
    return chosen


def _text(row: Row) -> str:
    return f"{row.name} {row.group}".lower()
