"""The command line of the benchmark: `make bench ARGS="..."`."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import click
from rich.console import Console

from compat_tests.bench.busy import BUSY_PROCESSES, busy_machine
from compat_tests.bench.catalog import ROWS, Row, select
from compat_tests.bench.others import OTHERS
from compat_tests.bench.pace import pace_of
from compat_tests.bench.page import page
from compat_tests.bench.passes import Samples, interleave, run_others
from compat_tests.bench.report import markdown, others_table, print_failures, results_table
from compat_tests.bench.results import Part, as_json, machine, results_of
from compat_tests.harness.systems import System

QUIET, BUSY = "quiet", "busy"
PASSES = 3


@click.command()
@click.option("--quick", is_flag=True, help="One short pass on the quiet machine, no heavy rows.")
@click.option("-k", "words", multiple=True, help="Only rows whose name or group contains the word.")
@click.option("--busy", is_flag=True, help=f"Only with {BUSY_PROCESSES} busy processes beside.")
@click.option("--quiet", is_flag=True, help="Only without them.")
@click.option(
    "--passes", type=click.IntRange(1), help=f"Passes per system [{PASSES}; 1 if quick or busy]."
)
@click.option("--only", type=click.Choice([s.value for s in System]), help="One system alone.")
@click.option("--no-others", is_flag=True, help="Leave the other libraries out.")
@click.option("--list", "listing", is_flag=True, help="List the rows and end.")
@click.option(
    "--out", default="bench-results", show_default=True, help="Folder for what is written."
)
def main(
    quick: bool,
    words: tuple[str, ...],
    busy: bool,
    quiet: bool,
    passes: int | None,
    only: str | None,
    no_others: bool,
    listing: bool,
    out: str,
) -> None:
    """Measure raymesh beside Ray 2.60, interleaved in one run.

    A whole run measures every row on the quiet machine, three times, and once more with busy processes
    beside. A quick one, and one of chosen rows (-k), keeps to the quiet machine unless --busy is given.
    """
    console = Console(width=None if sys.stdout.isatty() else 170)
    if listing:
        for row in ROWS:
            console.print(f"{row.group:20} {row.name} [{row.unit}]", markup=False, highlight=False)
        return
    rows = select(words, quick=quick)
    if not rows:
        raise click.UsageError("no row has such a name; --list shows them all")
    if busy and quiet:
        raise click.UsageError("--busy and --quiet are the two halves of a whole run")
    part_of_it = bool(quick or words or only)
    loads = [BUSY] if busy else [QUIET] if quiet or part_of_it else [QUIET, BUSY]

    run = _Run(
        rows=rows,
        systems=[System(only)] if only else [System.RAY, System.RAYMESH],
        quick=quick,
        others=not (no_others or only or words),
        console=console,
        stem=Path(out) / _stem(loads, part=bool(words or only), quick=quick),
    )
    run.settings = {"rows": " ".join(words) or ("without the heavy" if quick else "all")}
    begin = time.perf_counter()
    # What has been measured when somebody loses patience is shown too.
    with contextlib.suppress(KeyboardInterrupt):
        for load in loads:
            usual = 1 if quick or load == BUSY else PASSES
            # In a whole run the number given is that of the quiet half.
            given = passes if load == loads[0] else None
            run.measure(load, given or usual)
    run.show()
    console.print(f"[dim]{(time.perf_counter() - begin) / 60:.1f} minutes[/]", highlight=False)


def _stem(loads: list[str], *, part: bool, quick: bool) -> str:
    """What a run writes does not replace what a longer one has written."""
    words = ["bench"] + ["part"] * part + ["quick"] * quick + ["busy"] * (loads == [BUSY])
    return "-".join(words)


class _Run:
    """One run: its parts so far, saved after every pass."""

    def __init__(
        self,
        *,
        rows: list[Row],
        systems: list[System],
        quick: bool,
        others: bool,
        console: Console,
        stem: Path,
    ) -> None:
        self.rows = rows
        self.systems = systems
        self.quick = quick
        self.others = others
        self.console = console
        self.stem = stem
        self.machine = machine()
        self.settings: dict[str, object] = {}
        self.parts: list[Part] = []

    def measure(self, load: str, passes: int) -> None:
        """Measure all rows under one load."""
        pace = pace_of(quick=self.quick, busy=load == BUSY)
        self.settings[load] = f"{passes} {'pass' if passes == 1 else 'passes'}, pace {pace.name}"
        part = Part(load, [], {})
        self.parts.append(part)

        def after_pass(samples: dict[System, Samples]) -> None:
            part.samples = samples
            part.results = results_of(self.rows, samples)
            self.save()

        def tell(line: str) -> None:
            self.console.print(f"[dim]{load}: {line}[/]", highlight=False)

        with busy_machine() if load == BUSY else contextlib.nullcontext():
            interleave(
                self.rows,
                systems=self.systems,
                passes=passes,
                pace=pace,
                tell=tell,
                after_pass=after_pass,
            )
            if self.others:
                begin = time.perf_counter()
                part.others = run_others(list(OTHERS), pace=pace)
                tell(f"others, {time.perf_counter() - begin:.0f} s")
        self.save()

    def save(self) -> None:
        """Write everything there is."""
        data = as_json(self.parts, self.settings, self.machine)
        self.stem.parent.mkdir(parents=True, exist_ok=True)
        written = {
            ".json": json.dumps(data, indent=1, allow_nan=False),
            ".html": page(self.parts, self.settings, self.machine),
            ".md": markdown(self.parts[0]),
        }
        for ending, text in written.items():
            self.stem.with_suffix(ending).write_text(text, encoding="utf-8")

    def show(self) -> None:
        """Print the tables."""
        for part in self.parts:
            self.console.print(results_table(part))
            if part.others:
                self.console.print(others_table(part))
            print_failures(self.console, part)
        if self.parts and self.parts[0].results:
            self.console.print(f"wrote {self.stem}.json, .html and .md", highlight=False)


if __name__ == "__main__":
    main()
