"""`raymesh job submit|status|logs|stop|list|delete`: programs that a cluster runs. Options and output as of `ray job`."""

from __future__ import annotations

import asyncio
import pprint
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from raymesh.cli.parsing import json_object
from raymesh.job_submission import JobStatus, JobSubmissionClient

_SUBMITTED = """\
Next steps
  Query the logs of the job:
    raymesh job logs {id}
  Query the status of the job:
    raymesh job status {id}
  Request the job to be stopped:
    raymesh job stop {id}
"""


def _common(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--address",
            help="The job server, http://HOST:PORT; auto: that of this machine.  [default: RAY_API_SERVER_ADDRESS,"
            " RAY_ADDRESS, auto]",
        ),
        click.option("--headers", help="Headers of HTTP, as JSON. Or RAY_JOB_HEADERS."),
        click.option(
            "--verify",
            default="True",
            help="Check the server's certificate; or a file of those to trust.",
        ),
    ):
        command = option(command)
    return command


def _client(address: str | None, headers: str | None, verify: str) -> Any:
    import os

    text = headers or os.environ.get("RAY_JOB_HEADERS")
    trusted: str | bool = {"true": True, "1": True, "false": False, "0": False}.get(
        verify.lower(), verify
    )
    try:
        client = JobSubmissionClient(
            address, headers=json_object("--headers", text) if text else None, verify=trusted
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"Job submission server address: {client.get_address()}")
    return client


class _Group(click.Group):
    """Says what a server answers instead of showing a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except (
            ConnectionError,
            NotImplementedError,
            OSError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            if isinstance(error, click.exceptions.Exit | click.Abort | BrokenPipeError):
                raise
            raise click.ClickException(str(error)) from None


@click.group(cls=_Group)
def job() -> None:
    """Submit, stop, delete, or list jobs."""


def _big(text: str) -> None:
    line = "-" * len(text)
    click.echo(f"\n{line}\n{text}\n{line}\n")


def _show_status(client: Any, job_id: str) -> JobStatus:
    info = client.get_job_info(job_id)
    if info.status is JobStatus.SUCCEEDED:
        _big(f"Job '{job_id}' succeeded")
        return JobStatus.SUCCEEDED
    if info.status is JobStatus.STOPPED:
        click.echo(f"Job '{job_id}' was stopped")
        return JobStatus.STOPPED
    if info.status is JobStatus.FAILED:
        _big(f"Job '{job_id}' failed")
    else:
        click.echo(f"Status for job '{job_id}': {info.status}")
    if info.message is not None:
        click.echo(f"Status message: {info.message}")
    return JobStatus(info.status)


async def _tail(client: Any, job_id: str) -> None:
    async for piece in client.tail_job_logs(job_id):
        click.echo(piece, nl=False)
        sys.stdout.flush()


def _environment(path: str | None, text: str | None, working_dir: str | None) -> dict[str, Any]:
    if path and text:
        raise click.UsageError("Only one of --runtime_env and --runtime-env-json can be provided.")
    env: dict[str, Any] = {}
    if path:
        try:
            import yaml  # type: ignore[import-untyped]
        except ImportError:
            raise click.ClickException(
                "--runtime-env reads YAML.\nhint: pip install pyyaml, or use --runtime-env-json"
            ) from None
        env = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        if not isinstance(env, dict):
            raise click.BadParameter("must hold a mapping", param_hint="--runtime-env")
    if text:
        env = json_object("--runtime-env-json", text)
    if working_dir:
        env["working_dir"] = working_dir
    return env


@job.command()
@_common
@click.option("--submission-id", help="The id of the job.  [default: a new one]")
@click.option("--job-id", hidden=True)
@click.option("--runtime-env", help="A YAML file with the runtime environment.")
@click.option("--runtime-env-json", help="The runtime environment as JSON.")
@click.option("--working-dir", help="The folder that the job runs in: it is packed and sent.")
@click.option("--metadata-json", help="Words about the job, as JSON.")
@click.option("--entrypoint-num-cpus", type=float, help="CPUs for the command itself.")
@click.option("--entrypoint-num-gpus", type=float, help="GPUs for the command itself.")
@click.option("--entrypoint-memory", type=int, help="Bytes of memory for the command itself.")
@click.option("--entrypoint-resources", help="Other resources for the command itself, as JSON.")
@click.option(
    "--entrypoint-label-selector",
    help="""Labels of the host for the command itself, as JSON: '{"zone": "in(a, b)"}'.""",
)
@click.option("--no-wait", is_flag=True, help="Do not wait for the end of the job.")
@click.argument("entrypoint", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(
    address: str | None,
    headers: str | None,
    verify: str,
    submission_id: str | None,
    job_id: str | None,
    runtime_env: str | None,
    runtime_env_json: str | None,
    working_dir: str | None,
    metadata_json: str | None,
    entrypoint_resources: str | None,
    entrypoint_label_selector: str | None,
    no_wait: bool,
    entrypoint: tuple[str, ...],
    **amounts: Any,
) -> None:
    """Run a program on the cluster: `raymesh job submit -- python my_script.py --its-option`.

    Shows what it prints until it ends. Ends with 1 if the job failed.
    """
    env = _environment(runtime_env, runtime_env_json, working_dir)
    client = _client(address, headers, verify)
    made = client.submit_job(
        entrypoint=shlex.join(entrypoint),
        submission_id=submission_id or job_id,
        runtime_env=env,
        metadata=json_object("--metadata-json", metadata_json) if metadata_json else None,
        entrypoint_resources=json_object("--entrypoint-resources", entrypoint_resources)
        if entrypoint_resources
        else None,
        entrypoint_label_selector=json_object(
            "--entrypoint-label-selector", entrypoint_label_selector
        )
        if entrypoint_label_selector
        else None,
        **amounts,
    )
    _big(f"Job '{made}' submitted successfully")
    click.echo(_SUBMITTED.format(id=made))
    sys.stdout.flush()
    if no_wait:
        return
    click.echo("Tailing logs until the job exits (disable with --no-wait):")
    asyncio.run(_tail(client, made))
    if _show_status(client, made) is JobStatus.FAILED:
        sys.exit(1)


@job.command()
@_common
@click.argument("job-id")
def status(address: str | None, headers: str | None, verify: str, job_id: str) -> None:
    """Say where a job stands."""
    _show_status(_client(address, headers, verify), job_id)


@job.command()
@_common
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.argument("job-id")
def logs(address: str | None, headers: str | None, verify: str, follow: bool, job_id: str) -> None:
    """Show what a job has printed."""
    client = _client(address, headers, verify)
    if follow:
        asyncio.run(_tail(client, job_id))
        _show_status(client, job_id)
    else:
        click.echo(client.get_job_logs(job_id), nl=False)


@job.command()
@_common
@click.option("--no-wait", is_flag=True, help="Do not wait for its end.")
@click.argument("job-id")
def stop(address: str | None, headers: str | None, verify: str, no_wait: bool, job_id: str) -> None:
    """Stop a job: SIGTERM, and SIGKILL 3 s later."""
    client = _client(address, headers, verify)
    click.echo(f"Attempting to stop job '{job_id}'")
    client.stop_job(job_id)
    if no_wait:
        return
    click.echo(f"Waiting for job '{job_id}' to exit (disable with --no-wait):")
    while not JobStatus(client.get_job_status(job_id)).is_terminal():
        time.sleep(0.2)  # the interface has no way to wait
    _show_status(client, job_id)


@job.command()
@_common
@click.argument("job-id")
def delete(address: str | None, headers: str | None, verify: str, job_id: str) -> None:
    """Forget a job that has ended."""
    _client(address, headers, verify).delete_job(job_id)
    click.echo(f"Job '{job_id}' deleted successfully")


@job.command("list")
@_common
def list_jobs(address: str | None, headers: str | None, verify: str) -> None:
    """Show all jobs."""
    click.echo(pprint.pformat(_client(address, headers, verify).list_jobs()))
