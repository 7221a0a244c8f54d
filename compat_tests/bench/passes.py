"""Starts the measured programs, alternating between the systems, and gathers their samples."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from compat_tests.bench.catalog import START, Row, keys_of, limit_of, sessions
from compat_tests.bench.pace import VARIABLE as PACE_VARIABLE
from compat_tests.bench.pace import Pace
from compat_tests.harness.systems import System, end_leftovers, new_run_id

HERE = Path(__file__).resolve().parent
ANSWERS_VARIABLE = "BENCH_ANSWERS"
BEGIN_VARIABLE = "BENCH_BEGIN"
"""When the program was started, on the clock that all processes share (`time.perf_counter`)."""
DEADLINE_VARIABLE = "BENCH_DEADLINE"
"""After this moment, on the same clock, a program begins no further row."""
STORE_VARIABLE = "BENCH_STORE"
STORE_BYTES = 8 * 10**9
START_AND_END_S = 120.0
"""What a program may take for itself, besides its rows."""
OTHERS_S = 90.0


@dataclass
class Samples:
    """What was measured on one system, over all passes."""

    values: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    """Row -> pass -> samples."""
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """By body."""

    def add(self, answer: dict, number: int) -> None:
        """Take in one line that a program wrote in a pass."""
        for row, values in answer["values"].items():
            self.values.setdefault(row, {}).setdefault(number, []).extend(values)
        self.curves.update(answer.get("curves") or {})
        self.notes.update(answer.get("notes") or {})
        if answer.get("failure"):
            self.failures[answer["body"]] = answer["failure"]


def store_bytes() -> int:
    """The size of the object store: large enough for several objects of 1 GB, if the machine is."""
    return min(STORE_BYTES, int(psutil.virtual_memory().total * 0.35))


def _start(
    command: list[str], environment: dict[str, str], *, timeout_s: float
) -> tuple[list[dict], str]:
    """Run one program; returns its answers and the end of its output."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path, printed = Path(folder) / "answers.jsonl", Path(folder) / "output"
        own = {ANSWERS_VARIABLE: str(path), BEGIN_VARIABLE: repr(time.perf_counter())}
        # Into a file: a daemon that keeps a pipe open would keep us waiting after the program's end.
        with printed.open("wb") as output:
            try:
                subprocess.run(
                    command,
                    env={**environment, **own},
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                output.write(f"\nno end after {timeout_s:.0f} s".encode())
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        text = printed.read_text(encoding="utf-8", errors="replace")
    return [json.loads(line) for line in lines], text[-2000:]


def run_program(
    system: System,
    program: str,
    arguments: Sequence[str],
    *,
    pace: Pace,
    deadline: float,
    timeout_s: float,
) -> tuple[list[dict], str]:
    """Run a program of this folder on a system, and end whatever is left of it."""
    run_id = new_run_id()
    environment = {
        **system.environment(run_id),
        PACE_VARIABLE: pace.name,
        DEADLINE_VARIABLE: repr(deadline),
        STORE_VARIABLE: str(store_bytes()),
    }
    command = system.command(HERE / program, arguments)
    try:
        return _start(command, environment, timeout_s=timeout_s)
    finally:
        end_leftovers(run_id, grace_s=15)


def run_pass(
    system: System, keys: Sequence[str], samples: Samples, number: int, *, pace: Pace
) -> None:
    """Measure bodies once on one system."""
    deadline = time.perf_counter() + pace.pass_s
    if START in keys:
        answers, output = run_program(
            system, "start.py", [], pace=pace, deadline=deadline, timeout_s=START_AND_END_S
        )
        for answer in answers:
            samples.add(answer, number)
        if not answers:
            samples.failures[START] = output
    for session in sessions(keys):
        if time.perf_counter() > deadline:
            samples.failures.update(dict.fromkeys(session, pace.out_of_time))
            continue
        _run_bodies(system, session, samples, number, pace=pace, deadline=deadline)


def _run_bodies(
    system: System,
    keys: Sequence[str],
    samples: Samples,
    number: int,
    *,
    pace: Pace,
    deadline: float,
) -> None:
    """Measure bodies in one session; one that takes its program down is left out of the next."""
    pending = list(keys)
    while pending:
        left_s = max(0.0, deadline - time.perf_counter())
        timeout_s = left_s + max(limit_of(key) for key in pending) + START_AND_END_S
        answers, output = run_program(
            system, "program.py", pending, pace=pace, deadline=deadline, timeout_s=timeout_s
        )
        for answer in answers:
            samples.add(answer, number)
        done = {answer["body"] for answer in answers}
        left = [key for key in pending if key not in done]
        if left and not done:
            samples.failures[left.pop(0)] = f"the program ended early\n{output}"
        pending = left


def run_others(names: Sequence[str], *, pace: Pace) -> dict[str, dict]:
    """Measure the systems a user would otherwise pick; name -> answer of `others.py`."""
    found: dict[str, dict] = {}
    for name in names:
        answers, output = run_program(
            System.RAY, "others.py", [name], pace=pace, deadline=0, timeout_s=OTHERS_S
        )
        found[name] = answers[0] if answers else {"values": {}, "failure": output}
    return found


def interleave(
    rows: Sequence[Row],
    *,
    systems: Sequence[System],
    passes: int,
    pace: Pace,
    tell: Callable[[str], None],
    after_pass: Callable[[dict[System, Samples]], None],
) -> dict[System, Samples]:
    """Run all passes; every other pass the systems take turns in being first."""
    samples = {system: Samples() for system in systems}
    for number in range(passes):
        order = systems if number % 2 == 0 else list(reversed(systems))
        try:
            for system in order:
                begin = time.perf_counter()
                run_pass(system, keys_of(rows, number), samples[system], number, pace=pace)
                took = time.perf_counter() - begin
                tell(f"pass {number + 1} of {passes}: {system.value}, {took:.0f} s")
        finally:
            after_pass(samples)
    return samples
