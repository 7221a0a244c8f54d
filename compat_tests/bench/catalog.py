"""The rows of the benchmark. Nothing here imports Ray, so that the reporting side can read it."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Takes long or much memory: not part of a quick run, and of every other pass only."""
    body: str = ""
    """The measuring function's key; rows with the same body are measured together."""
    limit_s: float = 75.0
    """What takes longer hangs, and is ended."""

    @property
    def key(self) -> str:
        return self.body or self.name


def _rates(group: str, unit: str, *rows: tuple[str, float]) -> list[Row]:
    return [Row(name, group, unit, goal) for name, goal in rows]


def _costs(group: str, unit: str, *rows: tuple[str, float, str]) -> list[Row]:
    return [
        Row(name, group, unit, goal, higher_is_better=False, body=body) for name, goal, body in rows
    ]


START = "start"
"""The body that is a program of its own."""

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


def fan_out(count: int) -> str:
    """The row's name."""
    return f"fan-out to {count} actor{'s' * (count > 1)}"


MANY = 1000
"""Actors of one driver, all called."""

CROWD = "a crowd of actors"
"""The body that measures the rows with 100 actors and more on the same ones."""

HANDED_OVER = ("1 MB", "100 MB", "1 GB")
"""Sizes of the tensors that one actor makes and another takes."""

HEAVY_BYTES = 10**9

MEMORY, TENSORS, HOSTS = "memory", "tensors", "hosts"

FAR_SYNC, FAR_ASYNC = "calls between two hosts sync", "calls between two hosts async"
CALLS_FAR = "calls between two hosts"
"""The body of both."""
GIGABYTE_FAR = "1 GB from host to host"
GIGABYTE_TLS = "1 GB from host to host, TLS against none"
TO_HOSTS = "100 MB to 8 hosts"
TASKS_FAR = "tasks over 4 hosts"
HOST_DEATH = "host death to retried result"
HEAD_BACK = "head restart to first call"
AGENT_MEMORY = "memory per host agent"


def _of_crowd(name: str, group: str, unit: str, higher_is_better: bool) -> Row:
    return Row(name, group, unit, 1, higher_is_better, heavy=True, body=CROWD, limit_s=300)


ROWS: list[Row] = [
    *_costs(
        "start",
        "s",
        ("init to first result", 20, START),
        ("import beyond an empty interpreter", 1, START),
        ("process start until imported", 1, START),
        ("process start to first result", 1, START),
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
        Row(f"put {size}", "put by size", "us", 1, False, heavy=number >= HEAVY_BYTES)
        for size, number in SIZES.items()
    ],
    *[
        Row(f"get {size}", "get by size", "us", 1, False, heavy=number >= HEAVY_BYTES)
        for size, number in SIZES.items()
    ],
    *[
        Row(
            f"tensor from actor to actor, {size}",
            TENSORS,
            "ms",
            10 if size == "1 MB" else 1,
            False,
            heavy=SIZES[size] >= HEAVY_BYTES,
        )
        for size in HANDED_OVER
    ],
    *[Row(fan_out(count), "fan-out", "us", 1, False) for count in FAN_OUT[:-1]],
    _of_crowd(fan_out(FAN_OUT[-1]), "fan-out", "us", False),
    _of_crowd(f"calls to {MANY:,} actors, one each", "fan-out", CALLS, True),
    Row("actor creation to first reply", "life", "ms", 20, False),
    Row("memory per 10,000 live refs", MEMORY, "MB", 2, False),
    Row("memory per idle worker", MEMORY, "MB", 2, False),
    _of_crowd(f"memory per actor of {MANY:,}", MEMORY, "MB", False),
    Row("cpu of an idle session", MEMORY, "ms/s", 1, False),
    Row(FAR_SYNC, HOSTS, CALLS, 8, body=CALLS_FAR, limit_s=120),
    Row(FAR_ASYNC, HOSTS, CALLS, 20, body=CALLS_FAR, limit_s=120),
    Row(GIGABYTE_FAR, HOSTS, "GB/s", 2, heavy=True, limit_s=120),
    Row(GIGABYTE_TLS, HOSTS, "GB/s", 1, heavy=True, limit_s=120),
    Row(TO_HOSTS, HOSTS, "ms", 3, False, heavy=True, limit_s=180),
    Row(TASKS_FAR, HOSTS, "tasks/s", 20, limit_s=120),
    Row(HOST_DEATH, HOSTS, "ms", 1, False, heavy=True, limit_s=180),
    Row(HEAD_BACK, HOSTS, "ms", 1, False, limit_s=120),
    Row(AGENT_MEMORY, HOSTS, "MB", 2, False, heavy=True, limit_s=180),
]


def sessions(keys: Sequence[str]) -> list[list[str]]:
    """The bodies that share a session, session by session.

    Memory is measured where no other row has left its traces, tensors where torch is imported; what
    takes longest comes last, because a pass that is out of time leaves out its end.
    """
    apart = [
        {row.key for row in ROWS if row.group == MEMORY} - {CROWD},
        {row.key for row in ROWS if row.group == TENSORS},
        {CROWD},
        {row.key for row in ROWS if row.group == HOSTS},
    ]
    others = [key for key in keys if key != START and not any(key in kept for kept in apart)]
    parts = [others, *([key for key in keys if key in kept] for kept in apart)]
    return [part for part in parts if part]


def keys_of(rows: Sequence[Row], number: int) -> list[str]:
    """The bodies that pass `number`, counted from 0, measures."""
    return list(dict.fromkeys(row.key for row in rows if not (row.heavy and number % 2)))


def limit_of(key: str) -> float:
    """After how many seconds a body is ended."""
    return max(row.limit_s for row in ROWS if row.key == key)


def select(words: tuple[str, ...], *, quick: bool) -> list[Row]:
    """The rows whose name or group contains one of the words; a quick run leaves heavy ones out."""
    chosen = [row for row in ROWS if not (quick and row.heavy)]
    if words:
        lowered = [word.lower() for word in words]
        chosen = [row for row in chosen if any(w in _text(row) for w in lowered)]
    return chosen


def _text(row: Row) -> str:
    return f"{row.name} {row.group}".lower()
