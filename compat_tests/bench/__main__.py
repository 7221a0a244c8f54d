"""The command line of the benchmark: `make bench ARGS="..."`."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import click
from rich.console import Console

from compat_tests.bench.busy import BUSY_PROCESSES, busy_machine
from compat_tests.bench.catalog import ROWS, select
from compat_tests.bench.page import write_page
from compat_tests.bench.passes import interleave, run_others
from compat_tests.bench.report import others_table, print_failures, results_table
from compat_tests.bench.results import as_json, results_of
from compat_tests.harness.systems import System

OTHERS = ("ProcessPoolExecutor", "multiprocessing.Pool", "Dask distributed", "Monarch")


@click.command()
@click.option("--quick", is_flag=True, help="One short pass without the heavy rows.")
@click.option("-k", "words", multiple=True, help="Only rows whose name or group contains the word.")
@click.option("--busy", is_flag=True, help=f"Measure with {BUSY_PROCESSES} busy processes beside.")
@click.option("--passes", type=click.IntRange(1), help="Passes per system [3; 1 with --quick].")
@click.option("--only", type=click.Choice([s.value for s in System]), help="One system alone.")
@click.option("--no-others", is_flag=True, help="Leave the other libraries out.")
@click.option("--list", "listing", is_flag=True, help="List the rows and end.")
@click.option("--out", default="bench-results", show_default=True, help="Folder for JSON and HTML.")
def main(
    quick: bool,
    words: tuple[str, ...],
    busy: bool,
    passes: int | None,
    only: str | None,
    no_others: bool,
    listing: bool,
    out: str,
) -> None:
    """Measure raymesh beside Ray 2.60, interleaved in one run."""
    console = Console(width=None if sys.stdout.isatty() else 130)
    if listing:
        for row in ROWS:
            console.print(f"{row.group:20} {row.name} [{row.unit}]", markup=False, highlight=False)
        return
    rows = select(words, quick=quick)
    if not rows:
        raise click.UsageError("no row has such a name; --list shows them all")
    count = passes or (1 if quick else 3)
    systems = [System(only)] if only else [System.RAY, System.RAYMESH]
    keys = list(dict.fromkeys(row.key for row in rows))
    settings = {"passes": count, "quick": quick, "busy": busy, "rows": " ".join(words) or "all"}

    with busy_machine() if busy else contextlib.nullcontext():
        samples = interleave(
            keys,
            systems=systems,
            passes=count,
            quick=quick,
            tell=lambda line: console.print(f"[dim]{line}[/]"),
        )
        others = {}
        if not (no_others or only):
            console.print("[dim]others[/]")
            others = run_others(OTHERS, quick=quick)

    results = results_of(rows, samples)
    title = "8 busy processes beside" if busy else "raymesh beside Ray"
    console.print(results_table(results, title=title))
    if others:
        console.print(others_table(others, results))
    print_failures(console, results)

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    data = as_json(results, samples, others, settings)
    stem = folder / ("busy" if busy else "bench")
    stem.with_suffix(".json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    write_page(str(stem.with_suffix(".html")), results, data)
    console.print(f"wrote {stem}.json and {stem}.html", highlight=False)


if __name__ == "__main__":
    main()
