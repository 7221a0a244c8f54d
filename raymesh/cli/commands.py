"""The click commands. Imported only when a command other than `run` is given."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

import raymesh
from raymesh.cli.parsing import json_object


class _Group(click.Group):
    """Imports what is about jobs only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted([*super().list_commands(ctx), "job"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name == "job":
            from raymesh.cli.job import job

            return job
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(raymesh.__version__, prog_name="raymesh")
def group() -> None:
    """Ray programs on the runtime of raymesh.

    On one machine only `run` is needed, or `import raymesh as ray` in the program.
    """


@group.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="SCRIPT [ARGS]...", nargs=-1, required=True)
def run(words: tuple[str, ...]) -> None:
    """Run a program written against `import ray` on raymesh.

    Every process of the program, workers included, finds raymesh under the name ray. With
    `-m MODULE` in place of SCRIPT, a module is run.
    """
    from raymesh.cli.run import run

    run(list(words))


@group.command(short_help="Say what this machine offers and lacks.")
def doctor() -> None:
    """Say what this machine offers, and what to do about what is missing."""
    from raymesh.cli import probes, report

    report.show(probes.all_findings())


@group.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=lambda context, _option, path: _from_file(context, path),
    help="A file (TOML) with values for the options below, named without the dashes: num-cpus = 4. What"
    " the command line says goes first.",
)
@click.option("--head", is_flag=True, help="Start a cluster; others join it.")
@click.option(
    "--address",
    help="Join the cluster of this string, which its head has printed; auto: that of a host here.",
)
@click.option(
    "--listen",
    help="IP address to listen on.  [default: 127.0.0.1 for a head; others: where the head sees them]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on.  [default: any that is free]",
)
@click.option("--num-cpus", type=float, help="CPUs to offer.  [default: those of this machine]")
@click.option("--num-gpus", type=float, help="GPUs to offer.  [default: those of this machine]")
@click.option("--resources", default="{}", help="Further resources, as JSON: amounts by name.")
@click.option("--labels", default="{}", help="Labels, as JSON: values by name.")
@click.option("--object-store-memory", type=int, help="Bytes.  [default: 30% of the free memory]")
@click.option("--node-name", default="", help="Shown to people.  [default: the machine's name]")
@click.option(
    "--journal",
    help="Folder where a head keeps what it needs to be started again, on the same port; none: nothing."
    "  [default: a folder of this user]",
)
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Seconds that the others wait for a head that has died.",
)
@click.option(
    "--include-dashboard/--no-include-dashboard",
    "include_dashboard",
    default=True,
    help="Whether a head has a job server.  [default: it has]",
)
@click.option(
    "--dashboard-host",
    default="127.0.0.1",
    help="IP address where the job server listens; with TLS, unless it is of this machine only.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the job server.  [default: 8265, or the next that is free]",
)
@click.option(
    "--tls/--no-tls",
    default=True,
    help="Whether links are encrypted. Without, all hosts have to be on this machine.  [default: --tls]",
)
@click.option("--block", is_flag=True, help="Stay until the host ends.")
def start(head: bool, address: str | None, resources: str, labels: str, **options: Any) -> None:
    """Start a host of a cluster on this machine."""
    from raymesh.cli import cluster

    cluster.start(
        head=head,
        address=address,
        resources=json_object("--resources", resources),
        labels=json_object("--labels", labels),
        **options,
    )


@group.command()
@click.argument("host", nargs=-1)
def stop(host: tuple[str, ...]) -> None:
    """End hosts that this user has started on this machine: those named by pid or address, or all."""
    from raymesh.cli import cluster

    cluster.stop(host)


@group.command()
@click.option("--address", help="The cluster.  [default: that of a host on this machine]")
@click.option("--json", "as_json", is_flag=True, help="Print it for programs.")
@click.option("-v", "--verbose", is_flag=True, help="Print whole node ids.")
def status(address: str | None, as_json: bool, verbose: bool) -> None:
    """Say what hosts a cluster has and what is used of each, what waits and why, and whose programs run."""
    from raymesh.cli import cluster

    cluster.status(address, as_json=as_json, verbose=verbose)


def _from_file(context: click.Context, path: str | None) -> None:
    """Takes what the file says as the options' defaults."""
    if path is None:
        return
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except ValueError as error:
        raise click.BadParameter(f"{path} is no TOML: {error}", param_hint="--config") from None
    known = {option.name for option in context.command.params}
    defaults = {}
    for name, value in values.items():
        if name.replace("-", "_") not in known or name == "config":
            options = sorted(str(name).replace("_", "-") for name in known if name)
            raise click.BadParameter(
                f"{path} has {name!r}, which is no option of this command. There are {', '.join(options)}.",
                param_hint="--config",
            )
        # Tables are the options that take JSON.
        defaults[name.replace("-", "_")] = json.dumps(value) if isinstance(value, dict) else value
    context.default_map = {**(context.default_map or {}), **defaults}


@group.command()
@click.argument("node")
@click.option("--address", help="The cluster.  [default: that of a host on this machine]")
@click.option(
    "--deadline", type=float, help="Seconds until the host goes, whatever runs.  [default: never]"
)
@click.option("--reason", default="asked for", help="Shown by `status`.")
def drain(node: str, address: str | None, deadline: float | None, reason: str) -> None:
    """Let a host leave: it gets nothing new, and ends when nothing keeps it. NODE is its name or node id."""
    from raymesh.cli import cluster

    cluster.drain(address, node, deadline, reason)
