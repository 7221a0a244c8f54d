"""Keeps a cluster that a case starts apart from whatever other clusters the machine has."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile


def own_folder() -> str:
    """Gives this program's Ray a folder of its own, where it also notes which cluster is the one of this machine.

    So it does for raymesh. Before a cluster is started.
    """
    # Short: there are sockets in it.
    folder = tempfile.mkdtemp(prefix="ray-")
    os.environ["RAY_TMPDIR"] = os.environ["XDG_RUNTIME_DIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def free_port() -> int:
    """One that nobody listens on, for what has to be told one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
