"""The actor that runs the command of a job, on the host that has what it needs.

The command ends with all that it has started: when it ends itself, when it is stopped, and when this process, its host or
the cluster ends, however that happens. This process is the subreaper of what it starts; and what is left of a dead
worker, the zygote of the host ends (`raymesh._worker.kin`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable
from typing import Any

from raymesh._job import CONFIG_VARIABLE
from raymesh._worker import child, environment, kin, thread_pools

_PIECE = 1 << 20
_PATIENCE_S = 60.0
"""A reader that waits for output is answered by then, with nothing."""
_STOP_WAIT_S = 3.0


class Supervisor:
    """Runs one command; its methods are called at the same time."""

    def __init__(
        self, submission_id: str, entrypoint: str, metadata: dict[str, str], join: str
    ) -> None:
        child.prctl(child.PR_SET_CHILD_SUBREAPER, 1)
        self._id, self._entrypoint, self._metadata, self._join = (
            submission_id,
            entrypoint,
            metadata,
            join,
        )
        # Without a name: it goes with this process.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._size = 0
        self._code: int | None = None
        self._stopped, self._deadline = False, 0.0
        self._wait_s = float(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", _STOP_WAIT_S))
        self._process: subprocess.Popen[bytes] | None = None
        self._driver: dict[str, str] | None = None
        self._change = threading.Condition()

    def start(self) -> dict[str, Any]:
        """Starts the command, once. Answers where it runs."""
        import raymesh

        with self._change:
            if self._process is None:
                self._say(f"Running entrypoint for job {self._id}: {self._entrypoint}\n".encode())
                self._process = subprocess.Popen(
                    self._entrypoint,
                    shell=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=self._environment(),
                    start_new_session=True,
                )
                threading.Thread(
                    target=self._follow, name="raymesh-job-output", daemon=True
                ).start()
                threading.Thread(
                    target=self._await_end, name="raymesh-job-end", daemon=True
                ).start()
        return {"node_id": raymesh.get_runtime_context().get_node_id(), "pid": self._process.pid}

    def driver_joined(self, driver: dict[str, str]) -> None:
        """From a driver that the command has started. The last one counts, as in Ray."""
        with self._change:
            self._driver = driver
            self._change.notify_all()

    def read(
        self, at: int, driver: dict[str, str] | None
    ) -> tuple[bytes, int | None, bool, dict[str, str] | None]:
        """What was printed from `at` on, as soon as there is something, or another `driver` than that. With nothing:
        the command's code if it has ended, and whether it was stopped. Always: the driver.
        """
        with self._change:
            self._change.wait_for(
                lambda: self._size > at or self._code is not None or self._driver != driver,
                _PATIENCE_S,
            )
            if self._size > at:
                piece = os.pread(self._output.fileno(), min(_PIECE, self._size - at), at)
                return piece, None, False, self._driver
            return b"", self._code, self._stopped, self._driver

    def stop(self) -> None:
        """Ends the command: it is told to, then it is made to."""
        with self._change:
            process = self._process
            if process is None or self._code is not None:
                return
            self._stopped, self._deadline = True, time.monotonic() + self._wait_s
        name = os.environ.get("RAY_JOB_STOP_SIGNAL", "SIGTERM")
        told = signal.SIGINT if name == "SIGINT" else signal.SIGTERM
        living = kin.descendants(os.getpid())
        for pid in living:
            try:
                os.kill(pid, told)
            except OSError:
                continue
        with self._change:
            if self._change.wait_for(lambda: self._code is not None, self._wait_s):
                return
        kin.kill(kin.descendants(os.getpid()))

    def _environment(self) -> dict[str, str]:
        import raymesh

        hidden = ("RAYMESH_NAMESPACE", "RAYMESH_SESSION", "RAY_JOB_CONFIG_JSON_ENV_VAR")
        found = {key: value for key, value in os.environ.items() if key not in hidden}
        if not environment.has_user_threads():
            # It was set for this actor.
            found.pop(thread_pools.VARIABLE, None)
        config = {
            "runtime_env": dict(raymesh.get_runtime_context().runtime_env),
            "metadata": self._metadata,
        }
        return {
            **found,
            CONFIG_VARIABLE: json.dumps(config),
            "RAY_ADDRESS": self._join,
            "RAY_SUBMISSION_ID": self._id,
            "PYTHONUNBUFFERED": "1",
        }

    def _follow(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while piece := os.read(self._process.stdout.fileno(), _PIECE):
            with self._change:
                self._say(piece)

    def _say(self, piece: bytes) -> None:
        self._output.seek(self._size)
        self._output.write(piece)
        self._output.flush()
        self._size += len(piece)
        self._change.notify_all()

    def _await_end(self) -> None:
        assert self._process is not None
        code = self._process.wait()
        if self._stopped:
            # What it has started was told, too, and may have as long as the command.
            _await(kin.descendants(os.getpid()), self._deadline)
        # What it has left running, and what holds the pipe open.
        kin.kill_all_below(os.getpid())
        for thread in threading.enumerate():
            if thread.name == "raymesh-job-output":
                thread.join()
        with self._change:
            self._code = code
            self._change.notify_all()


def _await(pids: Iterable[int], deadline: float) -> None:
    """Until these have ended, or the time has come."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        os.close(descriptor)
