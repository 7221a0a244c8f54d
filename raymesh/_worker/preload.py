"""Importing modules ahead in the zygote, and whether forking is still sound afterwards.

A module may do at import what does not survive a fork: start threads, or open the GPU. Such a
module is reported, and the agent starts another zygote that leaves it out.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Callable

from raymesh._worker import thread_pools


def run(modules: list[str], send: Callable[[bytes], None]) -> None:
    """Import ``modules``, reporting as ``zygote`` describes."""
    with _Silence(), thread_pools.loading_ahead():
        for module in modules:
            if module in sys.modules:
                continue
            send(b"M" + module.encode())
            try:
                importlib.import_module(module)
            except BaseException as error:  # user code: also SystemExit
                send(b"B" + f"{module}\0{type(error).__name__}: {error}".encode()[:4096])
            if reason := _harm():
                send(b"U" + f"{module}\0{reason}".encode())
    if reason := _lasting_threads():
        send(b"U" + f"\0{reason}".encode())


def _harm() -> str:
    """What the last import did that a fork does not survive."""
    if threading.active_count() > 1:
        names = ", ".join(thread.name for thread in threading.enumerate()[1:])
        return f"started threads ({names})"
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith(("/dev/nvidia", "/dev/kfd")):
            return f"opened {target}"
    return ""


def _lasting_threads() -> str:
    """Native threads that a fork does not end. Pools as of OpenBLAS stop for it and come back."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    with contextlib.suppress(ChildProcessError):  # the handler of SIGCHLD was quicker
        os.waitpid(pid, 0)
    count = len(os.listdir("/proc/self/task"))
    return f"{count - 1} native threads that do not stop for a fork" if count > 1 else ""


class _Silence:
    """What modules print when they are imported is not the zygote's to show."""

    def __enter__(self) -> None:
        self.kept = os.dup(1), os.dup(2)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)

    def __exit__(self, *_: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for fd, kept in zip((1, 2), self.kept, strict=True):
            os.dup2(kept, fd)
            os.close(kept)
