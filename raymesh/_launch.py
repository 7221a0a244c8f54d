"""Starting a host of a cluster as a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raymesh import _address, _init_options, _labels, _machine

_KINDS: dict[str, type[Exception]] = {
    error.__name__: error for error in (ConnectionError, RuntimeError, ValueError)
}


class Launched(NamedTuple):
    """A host that runs."""

    process: subprocess.Popen[str]
    """Of an attached one, standard output is a pipe: what its processes print and no driver takes."""
    pid: int
    join: str
    address: str
    log: Path
    jobs: str = ""


def launch(
    *,
    join: str | None,
    listen: str | None = None,
    port: int = 0,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    labels: Mapping[str, str] | None = None,
    object_store_memory: int | None = None,
    node_name: str = "",
    journal: str | None = None,
    patience: float = 60.0,
    tls: bool = True,
    jobs_at: tuple[str, int] | None = None,
    attached: bool = False,
    announced: bool = False,
    leashed: bool = False,
    within: Sequence[str] = (),
) -> Launched:
    """Starts a host that joins a cluster through the host of the string `join`, or a head if there is none.

    A head keeps what it needs to be started again in the folder `journal` ("none": nothing; by default, beside
    the addresses of this user's hosts). The others wait `patience` seconds for it, should it die.

    Without `tls` a head's links are not encrypted, and it is reached from this machine only.

    Without `listen` a head is reached from this machine only, and others where the head sees them.

    A head has a job server at the address and port `jobs_at`; port 0: 8265, or the next that is free.

    Programs of this user that name no cluster join an `announced` one. `within` is put before its command.

    An attached one gets the signals of this process's terminal and its standard error. A leashed one ends with
    this process, however that ends, or when the standard input of `process` is closed. Raises
    ConnectionError if the cluster cannot be joined or the port is not to be had, ValueError or
    AssertionError for amounts and addresses that make no sense.
    """
    offers = _init_options.host(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        object_store_memory=object_store_memory,
        memory=None,
        ip_address=listen or _loopback(join),
        head=join is None,
    )
    journals = _journals(journal)
    wanted = {
        "resources": offers.resources,
        "object_store_memory": offers.object_store_memory,
        "labels": _labels.of_host(labels, offers.resources),
        "host_name": node_name or _machine.host_name(),
        "listen": listen,
        "port": port,
        "join": join,
        "journals": journals,
        "patience": patience if journals else 0.0,
        "tls": tls,
        "jobs_at": jobs_at if join is None else None,
    }
    log = _address.new_log()
    with log.open("a", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [*within, sys.executable, "-m", "raymesh._host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if attached else errors,
            text=True,
            start_new_session=not attached,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        told = {**wanted, "announced": announced, "log": None if attached else str(log)}
        json.dump({**told, "leashed": leashed}, process.stdin)
        process.stdin.write("\n")
        if leashed:
            process.stdin.flush()
        else:
            process.stdin.close()
        line = process.stdout.readline()
    except BaseException:
        # Ctrl-C: nobody would know of it.
        process.kill()
        process.wait()
        with contextlib.suppress(BrokenPipeError):  # what it was still to be told
            process.stdin.close()
        process.stdout.close()
        log.unlink(missing_ok=True)
        raise
    if not attached:
        process.stdout.close()
    if not line:
        code = process.wait()
        process.stdin.close()
        raise RuntimeError(
            f"The host ended with code {code} before it was ready.\nhint: its log is {log}:\n"
            + log.read_text(encoding="utf-8", errors="replace")[-2000:]
        )
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        process.wait()
        process.stdin.close()
        log.unlink(missing_ok=True)
        raise _KINDS.get(answer["kind"], RuntimeError)(answer["error"])
    return Launched(process, answer["pid"], answer["join"], answer["address"], log, answer["jobs"])


def _journals(journal: str | None) -> str | None:
    if journal == "none":
        return None
    return str(Path(journal).resolve() if journal else _address.folder())


def _loopback(join: str | None) -> str | None:
    """The address of a host that listens where it does by itself, if that is only this machine."""
    is_local = join is None or join.startswith(("127.", "localhost:", "[::1]"))
    return "127.0.0.1" if is_local else None
