"""Where the job server is that an address means, and with what it is to be asked."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from raymesh import _address


class Target(NamedTuple):
    """A job server."""

    url: str
    """http://HOST:PORT"""
    token: str = ""
    """"": the caller's headers have it."""
    fingerprint: str = ""
    """Of its certificate, as in a join string; "": the system decides whom to trust."""


def find(address: str | None) -> Target:
    """Which server `address` means, as in Ray: a URL, HOST:PORT, "auto", a join string, or None for what
    RAY_API_SERVER_ADDRESS or RAY_ADDRESS say. On the head's machine its user needs no token; elsewhere it comes
    after the URL, as in a join string.

    Raises ConnectionError if there is none to be found, RuntimeError for an address of another kind.
    """
    address = address or os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS")
    heads = [record for record in _address.running() if record.jobs]
    if not address or address == "auto":
        for record in heads:
            return Target(record.jobs, *_secrets(record.join))
        raise ConnectionError(
            "Could not find any running cluster with a job server on this machine.\n"
            "hint: start one with `raymesh start --head`, or give --address http://HOST:PORT."
        )
    if "://" not in address or address.startswith("ray://"):
        wanted = address.removeprefix("ray://").partition("/")[0]
        for record in heads:
            if wanted in (record.address, record.join.partition("/")[0]):
                return Target(record.jobs, *_secrets(record.join))
        if "/" in address.removeprefix("ray://"):
            raise ConnectionError(
                f"The job server of the cluster at {wanted} is not on this machine.\n"
                "hint: give its address, http://HOST:PORT, which `raymesh start --head` has printed."
            )
        address = f"http://{address}"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RuntimeError(f"{address!r} is no address of a job server: give http://HOST:PORT.")
    if _SECRETS.fullmatch(parts.path):
        return Target(f"{parts.scheme}://{parts.netloc}", *_secrets(parts.path))
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    mine = {record.jobs.replace("127.0.0.1", name): record for record in heads for name in _NAMES}
    return Target(url, *_secrets(mine[url].join)) if url in mine else Target(url)


_NAMES = ("127.0.0.1", "localhost")


_SECRETS = re.compile(r"/[A-Za-z0-9_-]{43}\.[A-Za-z0-9_-]{43}")


def _secrets(join: str) -> tuple[str, str]:
    token, _, fingerprint = join.rpartition("/")[2].partition(".")
    return token, fingerprint
