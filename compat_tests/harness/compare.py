"""`make compare`: runs the cases on both systems and prints a table per feature."""

from __future__ import annotations

import itertools
import sys

import click
from rich.console import Console
from rich.table import Table

from compat_tests.harness.discover import CaseId, all_cases, title_of
from compat_tests.harness.run import ray_answers, run_cases
from compat_tests.harness.systems import System
from compat_tests.harness.verdict import Verdict, judge


def judge_area(
    cases: list[CaseId], *, fresh: bool, system: System = System.RAYMESH
) -> tuple[dict[CaseId, Verdict], list[str]]:
    """The verdicts on the cases of one file, and the processes that raymesh left behind."""
    theirs = ray_answers(cases, fresh=fresh)
    ours = run_cases(system, cases)
    verdicts = {
        found: judge(theirs.answers.get(found.name), ours.answers.get(found.name))
        for found in cases
    }
    return verdicts, ours.leftovers


def _row(area: str, verdicts: dict[CaseId, Verdict], leftovers: list[str]) -> list[str]:
    passed = sum(verdict.passed for verdict in verdicts.values())
    better = sum(len(verdict.better) for verdict in verdicts.values())
    differs = len(verdicts) - passed
    note = f"left behind: {', '.join(leftovers)}" if leftovers else ""
    colour = "red" if differs or leftovers else "green"
    return [
        title_of(area),
        area,
        f"[{colour}]{passed}/{len(verdicts)}[/]",
        str(differs or ""),
        str(better or ""),
        note,
    ]


@click.command()
@click.option("-k", "word", default="", help="Only cases whose name (area::case) contains WORD.")
@click.option("--fresh", is_flag=True, help="Ask Ray again, even where its answer is known.")
@click.option(
    "--ray-twice", is_flag=True, help="Compare Ray with itself: which cases are not stable?"
)
@click.option("-v", "verbose", is_flag=True, help="Show where raymesh is meant to differ, and why.")
def main(word: str, fresh: bool, ray_twice: bool, verbose: bool) -> None:
    """Compare raymesh with Ray, feature by feature."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    chosen = [found for found in all_cases() if word in str(found)]
    table = Table("feature", "area", "same", "differ", "better", "")
    second = System.RAY if ray_twice else System.RAYMESH
    details: list[tuple[CaseId, Verdict]] = []
    failed = False
    with console.status("") as status:
        for area, group in itertools.groupby(chosen, key=lambda found: found.area):
            status.update(f"comparing {area}")
            verdicts, leftovers = judge_area(list(group), fresh=fresh, system=second)
            details.extend(verdicts.items())
            failed = failed or bool(leftovers) or not all(v.passed for v in verdicts.values())
            table.add_row(*_row(area, verdicts, leftovers))
    console.print(table)
    for found, verdict in details:
        if verdict.broken is not None:
            console.print(f"[bold]{found}[/] {verdict.broken}", markup=True, highlight=False)
        for line in verdict.differences:
            console.print(f"[bold]{found}[/]", highlight=False)
            console.print(f"    {line}", markup=False, highlight=False)
        if verbose:
            for line in verdict.better:
                console.print(f"[green]{found}[/] better: {line}", highlight=False)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
