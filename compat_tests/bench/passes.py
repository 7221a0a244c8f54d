"""Starts the measured programs, alternating between the systems, and gathers their samples."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.bench.catalog import FRESH_GROUPS, ROWS
from compat_tests.harness.systems import System, end_leftovers, new_run_id

HERE = Path(__file__).resolve().parent
ANSWERS_VARIABLE = "BENCH_ANSWERS"
QUICK_VARIABLE = "BENCH_QUICK"
PROGRAM_TIMEOUT_S = 3600.0
BEGIN_VARIABLE = "BENCH_BEGIN"
"""When the program was started, on the clock that all processes share (`time.perf_counter`)."""


@dataclass
class Samples:
    """What was measured on one system, over all passes."""

    values: dict[str, list[float]] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, answer: dict) -> None:
        """Take in one line that a program wrote."""
        for row, values in answer["values"].items():
            self.values.setdefault(row, []).extend(values)
        self.curves.update(answer.get("curves") or {})
        if answer.get("failure"):
            self.failures[answer["body"]] = answer["failure"]


def _start(
    command: list[str], environment: dict[str, str], *, timeout_s: float
) -> tuple[list[dict], str]:
    """Run one program; returns its answers and the end of its output."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "answers.jsonl"
        try:
            ended = subprocess.run(
                command,
                env={
                    **environment,
                    ANSWERS_VARIABLE: str(path),
                    BEGIN_VARIABLE: repr(time.perf_counter()),
                },
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
            output = ended.stdout
        except subprocess.TimeoutExpired:
            output = f"no end after {timeout_s:g} s"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines], output[-2000:]


def run_program(
    system: System, program: str, arguments: Sequence[str], *, quick: bool
) -> tuple[list[dict], str]:
    """Run a program of this folder on a system, and end whatever is left of it."""
    run_id = new_run_id()
    environment = system.environment(run_id)
    if quick:
        environment[QUICK_VARIABLE] = "1"
    answers = _start(
        system.command(HERE / program, arguments), environment, timeout_s=PROGRAM_TIMEOUT_S
    )
    end_leftovers(run_id, grace_s=15)
    return answers


def run_pass(system: System, keys: Sequence[str], samples: Samples, *, quick: bool) -> None:
    """Measure bodies once on one system."""
    fresh = {row.key for row in ROWS if row.group in FRESH_GROUPS}
    _run_bodies(system, [k for k in keys if k != "start" and k not in fresh], samples, quick=quick)
    _run_bodies(system, [key for key in keys if key in fresh], samples, quick=quick)
    if "start" in keys:
        answers, output = run_program(system, "start.py", [], quick=quick)
        for answer in answers:
            samples.add(answer)
        if not answers:
            samples.failures["start"] = output


def _run_bodies(system: System, keys: Sequence[str], samples: Samples, *, quick: bool) -> None:
    """Measure bodies in one session; one that takes its program down is left out of the next."""
    pending = list(keys)
    while pending:
        answers, output = run_program(system, "program.py", pending, quick=quick)
        for answer in answers:
            samples.add(answer)
        done = {answer["body"] for answer in answers}
        left = [key for key in pending if key not in done]
        if left and not done:
            samples.failures[left.pop(0)] = f"the program ended early\n{output}"
        pending = left


def run_others(names: Sequence[str], *, quick: bool) -> dict[str, dict]:
    """Measure the systems a user would otherwise pick; name -> answer of `others.py`."""
    found: dict[str, dict] = {}
    for name in names:
        answers, output = run_program(System.RAY, "others.py", [name], quick=quick)
        found[name] = answers[0] if answers else {"values": {}, "failure": output}
    return found


def interleave(
    keys: Sequence[str],
    *,
    systems: Sequence[System],
    passes: int,
    quick: bool,
    tell: Callable[[str], None],
) -> dict[System, Samples]:
    """Run all passes; every other pass the systems take turns in being first."""
    samples = {system: Samples() for system in systems}
    for number in range(passes):
        order = systems if number % 2 == 0 else list(reversed(systems))
        for system in order:
            tell(f"pass {number + 1} of {passes}: {system.value}")
            run_pass(system, keys, samples[system], quick=quick)
    return samples
