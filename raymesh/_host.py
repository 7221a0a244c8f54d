"""A host of a cluster in a process of its own: what `raymesh start` starts.

`python -m raymesh._host` reads what it is to be from standard input (a line of JSON), and writes one line of JSON
to standard output: that it is ready, or why it is not. From then on it prints what processes of the host print.
It ends with SIGTERM or SIGINT, or when its cluster does; if it is leashed, also when standard input ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from threading import Thread
from types import FrameType
from typing import Any

from raymesh import _address, _native

_LOOK_S = 0.5
"""Seconds between two looks at whether it was told to end."""


def _follow_leash(told: list[int]) -> None:
    """Waits for the end of whoever started this process: the other end of the pipe closes with it."""
    while os.read(0, 1024):
        pass
    told.append(signal.SIGTERM)


def main() -> int:
    """The process. Answers its exit code."""
    wanted: dict[str, Any] = json.loads(sys.stdin.readline())
    log: str | None = wanted.pop("log")
    announced: bool = wanted.pop("announced")
    jobs_at: tuple[str, int] | None = wanted.pop("jobs_at")
    leashed: bool = wanted.pop("leashed")
    told: list[int] = []

    def tell(sig: int, _frame: FrameType | None) -> None:
        told.append(sig)

    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, tell)
    if leashed:
        Thread(target=_follow_leash, args=(told,), name="leash", daemon=True).start()
    try:
        host = _native.Host(**wanted)
    except (ConnectionError, RuntimeError, ValueError) as error:
        _say({"error": str(error), "kind": type(error).__name__})
        return 1
    join, head = host.join_string(), host.head()
    jobs = None
    if head is None and jobs_at is not None:
        from raymesh.job_submission._beside import JobServer

        jobs = JobServer(join, *jobs_at, identity=host.identity())
        if problem := jobs.start():
            host.stop()
            _say({"error": problem, "kind": "RuntimeError"})
            return 1
    record = _address.Record(
        os.getpid(),
        join,
        host.address(),
        head is None,
        announced,
        jobs.address if jobs else "",
        [wanted["join"].partition("/")[0], head] if head else [],
    )
    _address.write(record)
    _say(record._asdict())
    if log:
        os.dup2(2, 1)  # nobody listens there any more
    try:
        while not told:
            lines = host.next_output(_LOOK_S)
            if jobs is not None:
                jobs.look_after()
            if lines is None:
                print("the cluster has ended", file=sys.stderr, flush=True)
                return 1
            for name, pid, is_stderr, text, _ip in lines:
                print(
                    f"({name} pid={pid}) {text}",
                    file=sys.stderr if is_stderr else sys.stdout,
                    flush=True,
                )
        return 0
    finally:
        if jobs is not None:
            jobs.stop()
        host.stop()
        _address.remove(os.getpid())
        _drop_packages()
        if log and os.path.exists(log) and not os.path.getsize(log):
            os.unlink(log)


def _drop_packages() -> None:
    """Those that workers of this host had, and nobody else on this machine needs."""
    from raymesh.runtime_env import _cache

    try:
        _cache.sweep()
    except OSError as error:
        print(f"packages of jobs are left behind: {error}", file=sys.stderr, flush=True)


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
