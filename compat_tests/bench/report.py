"""The tables that `make bench` prints."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from compat_tests.bench.results import Result


def number(value: float | None) -> str:
    """Three significant digits or so, with thousands separated."""
    if value is None:
        return "-"
    if value == float("inf"):
        return "inf"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _mark(result: Result) -> str:
    if result.reached is None:
        return "[red]failed[/]" if result.failures else ""
    if result.reached:
        return "[green]reached[/]"
    assert result.ratio is not None
    return "[yellow]below goal[/]" if result.ratio >= 1 else "[red]slower[/]"


def results_table(results: Sequence[Result], *, title: str) -> Table:
    """Row by row: both medians, the ratio and its goal."""
    table = Table(title=title, title_justify="left")
    table.add_column("row")
    for heading in ("Ray", "raymesh", "unit", "ratio", "goal"):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    table.add_column("")
    group = None
    for result in results:
        if group not in (None, result.row.group):
            table.add_section()
        group = result.row.group
        ray, raymesh = result.medians
        table.add_row(
            result.row.name,
            number(ray),
            number(raymesh),
            result.row.unit,
            f"{number(result.ratio)}x" if result.ratio is not None else "-",
            f"{result.row.goal:g}x" if result.row.goal > 1 else "",
            _mark(result),
        )
    return table


def others_table(others: Mapping[str, Any], results: Sequence[Result]) -> Table:
    """What a user would otherwise pick, beside raymesh."""
    ours = {result.row.name: result.medians[1] for result in results}
    table = Table(title="For orientation", title_justify="left")
    for heading in ("system", "shape"):
        table.add_column(heading)
    for heading in ("per second", "raymesh", "raymesh is ahead by"):
        table.add_column(heading, justify="right")
    for name, answer in others.items():
        if answer.get("failure"):
            table.add_row(name, f"skipped: {answer['failure'].splitlines()[-1][:60]}", "", "", "")
        for row, values in answer["values"].items():
            theirs = statistics.median(values)
            own = ours.get(row)
            ratio = f"{number(own / theirs)}x" if own else "-"
            table.add_row(name, row, number(theirs), number(own), ratio)
    return table


def print_failures(console: Console, results: Sequence[Result]) -> None:
    """Say why a row has no figures; once per body."""
    seen = set()
    for result in results:
        for system, text in result.failures.items():
            if (result.row.key, system) not in seen:
                seen.add((result.row.key, system))
                console.print(f"[red]{result.row.name}[/] failed on {system.value}:")
                console.print(text.strip()[-1500:], markup=False, highlight=False)
