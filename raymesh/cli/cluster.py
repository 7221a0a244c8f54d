"""`raymesh start`, `stop` and `status`: clusters of several hosts."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click

from raymesh import _address
from raymesh._launch import Launched, launch

_END_S = 10.0
"""Seconds that a host may take to end."""
_ENOUGH = 8
"""Digits of a node id that may stand for it."""


def start(
    *,
    head: bool,
    address: str | None,
    block: bool,
    include_dashboard: bool,
    dashboard_host: str,
    dashboard_port: int,
    **options: Any,
) -> None:
    """Starts one host in a process of its own, and says how others join it."""
    if head == (address is not None):
        raise click.UsageError(
            "give either --head, or --address with the string that a host of the cluster has printed"
        )
    jobs_at = (dashboard_host, dashboard_port) if head and include_dashboard else None
    try:
        join = _address.join_string(address) if address else None
        launched = launch(join=join, attached=block, jobs_at=jobs_at, announced=True, **options)
    except (AssertionError, ConnectionError, RuntimeError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    if head:
        click.echo(
            _HEAD_RUNS.format(pid=launched.pid, address=launched.address, join=launched.join)
        )
        if launched.jobs:
            click.echo(_JOBS.format(jobs=launched.jobs))
            if launched.jobs.startswith("https:"):
                secret = launched.join.partition("/")[2]
                click.echo(_JOBS_ELSEWHERE.format(jobs=launched.jobs, secret=secret))
    else:
        click.echo(
            _HOST_RUNS.format(pid=launched.pid, address=launched.address, join=launched.join)
        )
    if block:
        _stay(launched)


_HEAD_RUNS = """\
The head runs (pid {pid}, {address}).

Other hosts join it with
  raymesh start --address {join}
and programs with
  ray.init(address="{join}")
or, as this user on this machine, with
  ray.init()

The string is a secret: who has it can run code on the cluster.
To end it: raymesh stop"""


_HOST_RUNS = """\
This host has joined the cluster (pid {pid}, {address}).

Others join the cluster through it with
  raymesh start --address {join}
and programs with
  ray.init(address="{join}")
or, as this user on this machine, with
  ray.init()"""


_JOBS = """
Jobs are submitted to {jobs}, on this machine:
  raymesh job submit --address {jobs} -- python my_script.py"""

_JOBS_ELSEWHERE = """\
and on other machines, with the secret:
  raymesh job submit --address {jobs}/{secret} -- python my_script.py"""


def _stay(launched: Launched) -> None:
    assert launched.process.stdout is not None
    # The host gets Ctrl-C from the terminal, too, and may have much to say yet.
    while True:
        try:
            for line in launched.process.stdout:
                click.echo(line, nl=False)
            sys.exit(launched.process.wait())
        except KeyboardInterrupt:
            launched.process.send_signal(signal.SIGTERM)


def stop(names: Sequence[str]) -> None:
    """Ends those hosts of this user on this machine, by pid or address; all, if none is named."""
    hosts = _address.running()
    known = {name: record for record in hosts for name in (str(record.pid), record.address)}
    if unknown := [name for name in names if name not in known]:
        shown = [f"  pid {record.pid}, {record.address}" for record in hosts]
        raise click.ClickException(
            f"No host of yours on this machine is {', '.join(unknown)}.\nhint: "
            + ("these run:\n" + "\n".join(shown) if hosts else "none runs.")
        )
    if names:
        hosts = [record for record in hosts if record in [known[name] for name in names]]
    # The others first, and all at once: a head that ends takes its hosts along.
    hosts.sort(key=lambda record: record.head)
    for record in hosts:
        if not record.head:
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, signal.SIGTERM)
    for record in hosts:
        end(record.pid)
        kind = "the head" if record.head else "the host"
        click.echo(f"Ended {kind} with pid {record.pid} ({record.address}).")
    if not hosts:
        click.echo("No host runs.")


def end(pid: int) -> None:
    """Ends one host, by force if it takes long."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not _has_ended(descriptor):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            _has_ended(descriptor)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)
        _address.remove(pid)


def _has_ended(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(_END_S * 1000))


def status(address: str | None, *, as_json: bool, verbose: bool) -> None:
    """Says what hosts a cluster has and what is used of each, what waits and why, and whose programs run."""
    import raymesh
    from raymesh.cli import status as of_cluster

    _join(address)
    try:
        found = of_cluster.report()
    finally:
        raymesh.shutdown()
    if as_json:
        click.echo(of_cluster.to_json(found))
    else:
        of_cluster.show(found, verbose=verbose)


def drain(address: str | None, node: str, deadline: float | None, reason: str) -> None:
    """Asks a host to leave: by its name, its node id, or enough of the id."""
    import raymesh
    from raymesh import _native

    _join(address)
    try:
        hosts = [host for host in _native.describe_cluster() if host["alive"]]
        meant = [it for it in hosts if it["host_name"] == node or _is_id(it["node_id"].hex(), node)]
        if len(meant) != 1:
            names = ", ".join(f"{it['host_name']} ({it['node_id'].hex()})" for it in hosts)
            what = "no host is" if not meant else "several hosts are"
            raise click.ClickException(f"{what} called {node}\nhint: there are {names}")
        refused = _native.drain_host(meant[0]["node_id"], reason, deadline)
        if refused:
            raise click.ClickException(f"{node} does not leave: {refused}")
        click.echo(f"{node} gets nothing new and leaves when nothing keeps it")
    finally:
        raymesh.shutdown()


def _is_id(node_id: str, given: str) -> bool:
    """Whether that is the id, or enough of its beginning."""
    return len(given) >= _ENOUGH and node_id.startswith(given.lower())


def _join(address: str | None) -> None:
    import raymesh

    if address is None and not _address.running():
        raise click.ClickException(_NO_HOST)
    try:
        raymesh.init(address=address or "auto", log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None


_NO_HOST = """\
No host that `raymesh start` has started runs on this machine (as this user).
hint: `raymesh start --head` starts a cluster, and `raymesh status --address ...` asks one elsewhere. What a
program has started for itself, by init() without an address, is seen by ray.nodes() in it only."""
