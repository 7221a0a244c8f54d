"""What Ray's job server needs beside Ray: in a folder of its own, which only the cases that ask for it have.

With these packages in the environment Ray would start a dashboard, a dozen processes, in every session.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "ray-dashboard"
"""`make test` and `make compare` fill it."""


def use() -> None:
    """Lets this program, and what it starts, import them. Before `ray` is imported.

    The program's Ray has a folder of its own, too: Ray notes there which cluster is the one of this machine.
    """
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [inherited, str(FOLDER)]))
    sys.path.append(str(FOLDER))
    # Short: there are sockets in it.
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray-")
    atexit.register(shutil.rmtree, os.environ["RAY_TMPDIR"], ignore_errors=True)


def free_port() -> int:
    """One that nobody listens on, for what has to be told one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
