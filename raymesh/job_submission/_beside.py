"""The job server as the head sees it: a process that it starts, and starts again should it end."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from typing import Any

_PAUSE_S = 1.0
"""A server that ends at once is not started again at once."""


class JobServer:
    """A job server that runs beside this head."""

    def __init__(
        self, join: str, host: str, port: int, *, identity: tuple[bytes, bytes] | None
    ) -> None:
        self._join, self._host, self._port = join, host, port
        self._identity = identity
        self._process: subprocess.Popen[str] | None = None
        self._started = 0.0
        self.address = ""

    def start(self) -> str:
        """Starts it. Answers why that cannot be done; "" if it listens."""
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "raymesh.job_submission._server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._process.stdout, self._process.stdin:
            wanted = {
                "head": os.getpid(),
                "join": self._join,
                "host": self._host,
                "port": self._port or None,
                "identity": [_pem(*part) for part in self._parts()],
            }
            json.dump(wanted, self._process.stdin)
            self._process.stdin.close()
            line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(
            line or '{"error": "the job server ended at its start"}'
        )
        if "error" in answer:
            self._process.wait()
            return str(answer["error"])
        # Started again it is to be found at the same place.
        self.address, self._port = answer["address"], answer["port"]
        return ""

    def _parts(self) -> list[tuple[str, bytes]]:
        names = ("CERTIFICATE", "PRIVATE KEY")
        return list(zip(names, self._identity, strict=True)) if self._identity else []

    def look_after(self) -> None:
        """Starts it again if it has ended."""
        assert self._process is not None
        if self._process.poll() is None or time.monotonic() - self._started < _PAUSE_S:
            return
        print(
            f"the job server has ended with code {self._process.returncode}; another one is started",
            file=sys.stderr,
            flush=True,
        )
        if error := self.start():
            print(f"there is no job server: {error}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Ends it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def _pem(name: str, der: bytes) -> str:
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN {name}-----\n{text}-----END {name}-----\n"
