"""A freshly forked worker: cut loose from the zygote, run, end in order.

``become_worker`` never returns. It must leave nothing of the zygote in sight: a session, signal
handlers, standard streams and random state of the worker's own.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import random
import resource
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import NoReturn

from raymesh._worker import kin, output

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

prctl = ctypes.CDLL(None, use_errno=True).prctl


@dataclass
class Inheritance:
    """What the zygote hands to every worker."""

    segment: int
    """memfd of the shared memory of the host."""
    eventfd: int
    """The agent's: a write tells it that its mailbox has messages."""
    driver: int
    """pidfd of the process that hosts the agent."""
    open_files: int
    """The soft limit on open files that the user's program started with."""
    streams: int
    """A file that takes standard output when nobody wants it, and standard input: /dev/null."""


def die_with_parent(parent: int, sig: int) -> bool:
    """Have the kernel send ``sig`` to this process when ``parent`` ends. False: it has."""
    prctl(PR_SET_PDEATHSIG, sig)
    return os.getppid() == parent


def set_process_name(name: str) -> None:
    """As shown by ``top`` and ``ps -o comm``: at most 15 bytes."""
    prctl(PR_SET_NAME, name.encode())


def become_worker(
    proc_id: int, given: Inheritance, streams: list[int], zygote: int, close: list[int]
) -> NoReturn:
    """Turn this fork of the ``zygote`` into the worker ``proc_id``.

    ``streams`` are the pipes for standard output and error (none: they are not wanted); ``close``
    what else the zygote had open.
    """
    code = 1
    try:
        os.setsid()  # a Ctrl-C in the terminal does not reach it; its children can be found by it
        if not die_with_parent(zygote, signal.SIGKILL):
            os._exit(1)
        set_process_name("raymesh-worker")
        _reset_signals()
        _connect(given.streams, streams, close)
        _reset_limits(given.open_files)
        _reseed()
        os.environ[kin.MARK] = str(os.getpid())
        gc.enable()
        code = _run(proc_id, given)
    except BaseException:
        traceback.print_exc()
    finally:
        _end(code)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for sig in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(sig, signal.SIG_DFL)


def _connect(null: int, streams: list[int], close: list[int]) -> None:
    out, err = streams or (null, null)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in {null, out, err, *close}:
        os.close(fd)
    output.open_streams()


def _reset_limits(open_files: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != open_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, hard))


def _reseed() -> None:
    """Random generators that a fork would repeat. torch starts from a constant anyway."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _run(proc_id: int, given: Inheritance) -> int:
    from raymesh._worker import main

    try:
        return main.start(proc_id, given.segment, given.eventfd, given.driver)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0) & 0xFF


def _end(code: int) -> NoReturn:
    """Leave without the interpreter's finalization, which other threads could hold up or crash."""
    try:
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    output.flush_streams()
    os._exit(code)
