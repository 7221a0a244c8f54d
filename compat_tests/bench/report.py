"""The tables that `make bench` prints, and the one in Markdown."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from compat_tests.bench.figures import Spread, number, short
from compat_tests.bench.others import BY
from compat_tests.bench.results import SHOWN, STATES, Part, Result
from compat_tests.harness.systems import System

COLOURS = {"reached": "green", "below": "yellow", "slower": "red", "failed": "red"}
TITLES = {"quiet": "raymesh beside Ray", "busy": "the same with 8 busy processes beside"}


def spread_text(spread: Spread | None) -> str:
    """The range, where there is one."""
    if spread is None or spread.low == spread.high:
        return ""
    ends = ("no bound" if math.isinf(end) else short(end) for end in (spread.low, spread.high))
    return " .. ".join(ends)


def results_table(part: Part) -> Table:
    """Row by row: both medians with lowest and highest, the ratio and its goal."""
    table = Table(title=TITLES[part.load], title_justify="left")
    table.add_column("row")
    for heading in ("Ray", "min .. max", "raymesh", "min .. max", "unit"):
        table.add_column(heading, justify="left" if heading == "unit" else "right", no_wrap=True)
    for heading in ("ratio", "min .. max", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    group, remarks = None, []
    for result in part.results:
        if group not in (None, result.row.group):
            table.add_section()
        group = result.row.group
        mark = ""
        for remark in result.remarks:
            remarks.append(remark)
            mark += f" [{len(remarks)}]"
        cells = []
        for system in SHOWN:
            spread = result.spread(system)
            cells += [number(spread.median if spread else None), spread_text(spread)]
        table.add_row(
            escape(result.row.name + mark),
            *cells,
            result.row.unit,
            result.ratio_text,
            spread_text(result.ratio),
            f"{result.row.goal:g}x" if result.row.goal > 1 else "",
            Text(STATES[result.state], style=COLOURS.get(result.state, "")),
        )
    if remarks:
        lines = (f"[{index}] {text}" for index, text in enumerate(remarks, 1))
        table.caption = escape("\n".join(lines))
        table.caption_justify = "left"
    return table


def others_table(part: Part) -> Table:
    """What a user would otherwise pick, beside raymesh."""
    table = Table(title=f"For orientation ({part.load})", title_justify="left")
    for heading in ("system", "shape"):
        table.add_column(heading)
    for heading in ("per second", "raymesh", "raymesh is ahead by"):
        table.add_column(heading, justify="right")
    for name, shape, theirs, own, failure in part.others_rows(BY):
        if theirs is None:
            table.add_row(name, escape(f"not measured: {failure[:80]}"), "", "", "")
        else:
            ahead = f"{number(own / theirs)}x" if own and theirs else "-"
            table.add_row(name, shape, number(theirs), number(own), ahead)
    return table


def print_failures(console: Console, part: Part) -> None:
    """Say why a row has no figures; once per body."""
    seen = set()
    for result in part.results:
        for system, text in result.failures.items():
            if (result.row.key, system) not in seen:
                seen.add((result.row.key, system))
                console.print(f"[red]{result.row.name}[/] ({part.load}) on {SHOWN[system]}:")
                console.print(text.strip()[-1500:], markup=False, highlight=False)


def _headline(result: Result) -> bool:
    return result.row.goal > 1 or "latency" in result.row.group


def markdown(part: Part) -> str:
    """The rows that have a goal, and the latencies, as a table for a README."""
    lines = ["| measure | Ray 2.60 | raymesh | ratio | goal |", "|---|---|---|---|---|"]
    for result in filter(_headline, part.results):
        unit = "/s" if result.row.unit.endswith("s/s") else result.row.unit
        figures = [
            f"{number(spread.median)} {unit}" if spread else "-"
            for spread in (result.spread(System.RAY), result.spread(System.RAYMESH))
        ]
        goal = f"{result.row.goal:g}x" if result.row.goal > 1 else ""
        name = result.row.name.replace(" (Plasma Store)", "")
        cells = [name, *figures, result.ratio_text, goal]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
