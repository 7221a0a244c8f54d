"""The table that `raymesh doctor` prints."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from raymesh.cli.probes import Finding

_MARKS = {"ok": "[green]ok[/green]", "note": "[cyan]-[/cyan]", "warn": "[yellow]warn[/yellow]"}


def show(findings: Iterable[Finding]) -> None:
    """Prints the findings, and how many need attention."""
    table = Table(title="raymesh doctor", title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("")
    table.add_column("what", style="bold", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("what to do", overflow="fold")
    warnings = 0
    for finding in findings:
        warnings += finding.verdict == "warn"
        table.add_row(_MARKS[finding.verdict], finding.what, finding.found, finding.advice)
    console = Console()
    console.print(table)
    console.print(
        f"\n{warnings} of these need attention." if warnings else "\nNothing needs attention."
    )
