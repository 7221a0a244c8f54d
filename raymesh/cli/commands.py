"""The click commands. Imported only when a command other than `run` is given."""

from __future__ import annotations

import click

import raymesh


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(raymesh.__version__, prog_name="raymesh")
def group() -> None:
    """The Ray API on a single-controller mesh runtime."""


@group.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="SCRIPT [ARGS]...", nargs=-1, required=True)
def run(words: tuple[str, ...]) -> None:
    """Run a program written against `import ray` on raymesh.

    Every process of the program, workers included, finds raymesh under the name ray. With
    `-m MODULE` in place of SCRIPT, a module is run.
    """
    from raymesh.cli.run import run

    run(list(words))


@group.command()
def doctor() -> None:
    """Say what this machine offers, and what to do about what is missing."""
    from raymesh.cli import probes, report

    report.show(probes.all_findings())
