"""Which cluster an address means, and what this user's hosts on this machine have left to be found by.

Each host that `raymesh start` has started here has a file in a folder of the user's own (mode 700, since
the join string is a secret): `<pid>.json`. A file whose process is gone is nothing.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_HINT = "hint: give the whole string that `raymesh start` has printed there, HOST:PORT/TOKEN.FINGERPRINT."
_KEEP_S = 7 * 24 * 3600
"""Logs are kept for so long."""


class Record(NamedTuple):
    """A host that runs on this machine."""

    pid: int
    join: str
    """What others join its cluster by, through this host."""
    address: str
    """IP:PORT where it listens."""
    head: bool
    announced: bool = False
    """Programs that name no cluster join it."""
    jobs: str = ""
    """Where its job server is, http://HOST:PORT; "" if it has none."""
    through: Sequence[str] = ()
    """HOST:PORT of the head, and of whom it was told of, if it is not the head."""


def folder() -> Path:
    """Where the files are. Made if it is not there.

    Raises PermissionError if somebody else could read or replace what is in it.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(base, "raymesh") if base else Path(f"/tmp/raymesh-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{path} is not a folder of this user alone.\nhint: remove it; it holds the secrets of clusters."
        )
    return path


def new_log() -> Path:
    """A file for what a new host has to say. Those of hosts that ended long ago go."""
    for path in folder().glob("*.log"):
        if time.time() - path.stat().st_mtime > _KEEP_S:
            path.unlink(missing_ok=True)
    return folder() / f"host-{time.time_ns()}.log"


def write(record: Record) -> None:
    """Lets others of this user find the host."""
    path = folder() / f"{record.pid}.json"
    whole = path.with_suffix(".new")
    descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(record._asdict(), file)
    whole.replace(path)


def remove(pid: int) -> None:
    """The host has ended."""
    (folder() / f"{pid}.json").unlink(missing_ok=True)


def running() -> list[Record]:
    """Hosts of this user on this machine, the latest first."""
    found: list[tuple[float, Record]] = []
    for path in folder().glob("*.json"):
        try:
            fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            record = Record(**fields)
            begun = path.stat().st_mtime
        except (OSError, ValueError, TypeError):
            continue
        if is_host(record.pid):
            found.append((begun, record))
        else:
            path.unlink(missing_ok=True)
    return [record for _, record in sorted(found, reverse=True)]


def is_host(pid: int) -> bool:
    """Whether that process is a host of raymesh, and not another one that has got its number."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"raymesh._host" in command


def join_string(address: str | None) -> str | None:
    """The join string of the cluster that `address` (as given to `init`) means. None: start one here.

    Without an address, and without RAY_ADDRESS, it is the cluster of the host that `raymesh start` has started last
    on this machine, if one runs. Raises ConnectionError if there is no such cluster to be found.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    if address == "local":
        return None
    if not address:
        return _announced()
    address = address.removeprefix("ray://")
    if "/" in address:
        return address
    hosts = running()
    if address == "auto":
        if hosts:
            return hosts[0].join
        raise ConnectionError(
            "Could not find any running cluster to connect to.\n"
            "hint: call init() without an address to start one on this machine, or run `raymesh start --head`."
        )
    for record in hosts:
        if address in (record.address, record.join.partition("/")[0], *record.through):
            return record.join
    raise ConnectionError(
        f"No cluster at {address!r} is known on this machine, and an address alone does not open one: "
        f"it takes the cluster's token.\n{_HINT}"
    )


def _announced() -> str | None:
    try:
        return next((record.join for record in running() if record.announced), None)
    except OSError:
        # Somebody else's folder, or none can be made: there is nothing in it to be trusted.
        return None
