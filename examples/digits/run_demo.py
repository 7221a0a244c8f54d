"""Runs digits.py on Ray and on raymesh: the same answer? how long, how much memory?

The very same file runs twice: with `python`, and with `python -m raymesh run`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

PROGRAM = Path(__file__).resolve().with_name("digits.py")
ROOT = PROGRAM.parents[2]
SAMPLE_S = 0.2
"""Between two looks at the memory: short enough for phases of a second, long enough to cost little."""

COMMANDS = {
    "Ray": [sys.executable, str(PROGRAM)],
    "raymesh": [sys.executable, "-m", "raymesh", "run", str(PROGRAM)],
}


@dataclass(frozen=True)
class Run:
    """One run of the program on one system."""

    result: dict
    seconds: dict[str, float]
    wall_s: float
    peak_mb: float


def _pss_mb(process: psutil.Process) -> float:
    """Memory of a process, pages shared with others counted in parts."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = (line.split()[1] for line in text.splitlines() if line.startswith("Pss:"))
    return int(next(found, "0")) / 1000


def _tree_mb(root: psutil.Process) -> float:
    try:
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0.0
    return sum(map(_pss_mb, family))


def _watch(pid: int, ended: threading.Event, peak: list[float]) -> None:
    root = psutil.Process(pid)
    while not ended.wait(SAMPLE_S):
        peak[0] = max(peak[0], _tree_mb(root))


def run(name: str) -> Run:
    """Run the program once and watch its memory."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    begin = time.perf_counter()
    process = subprocess.Popen(
        COMMANDS[name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=PROGRAM.parent,
    )
    ended, peak = threading.Event(), [0.0]
    watcher = threading.Thread(target=_watch, args=(process.pid, ended, peak))
    watcher.start()
    output, _ = process.communicate()
    wall_s = time.perf_counter() - begin
    ended.set()
    watcher.join()
    lines = [line for line in output.splitlines() if line.startswith('{"result"')]
    if process.returncode or not lines:
        raise click.ClickException(f"{name} ended with {process.returncode}:\n{output}")
    answer = json.loads(lines[-1])
    return Run(answer["result"], answer["seconds"], wall_s, peak[0])


def _table(runs: dict[str, list[Run]]) -> Table:
    table = Table(
        title="1,797 scanned digits: training together, then searching", title_justify="left"
    )
    table.add_column("")
    names = list(runs)
    for name in [*names, "ratio"]:
        table.add_column(name, justify="right")

    def row(label: str, unit: str, value) -> None:
        medians = [statistics.median(value(found) for found in runs[name]) for name in names]
        ratio = f"{medians[0] / medians[1]:.1f}x" if len(medians) == 2 else ""
        table.add_row(label, *(f"{median:.2f} {unit}" for median in medians), ratio)

    first = {name: found[0].result for name, found in runs.items()}
    table.add_row(
        "accuracy after training",
        *(f"{result['training']['accuracy'][-1]:.2%}" for result in first.values()),
        "",
    )
    table.add_row(
        "best of the search",
        *(f"{result['search']['accuracy']:.2%}" for result in first.values()),
        "",
    )
    table.add_section()
    row("init to first task", "s", lambda found: found.seconds["start"])
    row("training", "s", lambda found: found.seconds["training"])
    row("search", "s", lambda found: found.seconds["search"])
    row("wall time", "s", lambda found: found.wall_s)
    row("peak memory (PSS)", "MB", lambda found: found.peak_mb)
    return table


@click.command()
@click.option("--times", default=1, show_default=True, help="Runs per system, interleaved.")
@click.option("--only", type=click.Choice(list(COMMANDS)), help="One system alone.")
@click.option("--json", "as_json", is_flag=True, help="Also print everything as JSON.")
def main(times: int, only: str | None, as_json: bool) -> None:
    """Run the demo on both systems and compare."""
    console = Console(width=None if sys.stdout.isatty() else 110)
    names = [only] if only else list(COMMANDS)
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(times):
        for name in names:
            console.print(f"[dim]run {number + 1} of {times}: {name} ...[/]")
            runs[name].append(run(name))
    console.print(_table(runs))
    results = [found.result for name in names for found in runs[name]]
    same = all(result == results[0] for result in results)
    console.print("[green]the same answer[/]" if same else "[red]the answers differ[/]")
    console.print(json.dumps(results[0]["search"]["best"]), highlight=False)
    if as_json:
        data = {name: [vars(found) for found in runs[name]] for name in names}
        console.print_json(json.dumps(data))
    if not same:
        for result in results:
            console.print_json(json.dumps(result))
        sys.exit(1)


if __name__ == "__main__":
    main()
