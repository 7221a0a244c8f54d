"""The jobs of a cluster: one thread follows each, from the submission to its end.

What is known of a job lies in a file, and its log in another, in a folder of the job server: a server that is started again
finds them, and goes on with those whose supervisors live.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from raymesh import _labels
from raymesh._job import SUPERVISOR_NAMESPACE as NAMESPACE
from raymesh._job import SUPERVISOR_PREFIX
from raymesh.job_submission._types import JobErrorType, JobInfo, JobStatus

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz123456789"
_START_TIMEOUT_S = 900.0
_TAIL_LINES, _TAIL_CHARS = 10, 20_000
_LOOK_S = 15.0


class Job:
    """One job. Whoever waits for its log or its end, waits for `change`."""

    def __init__(self, submission_id: str, info: JobInfo, folder: Path) -> None:
        self.id, self.info = submission_id, info
        self.log = folder / f"job-driver-{submission_id}.log"
        self._file = folder / f"{submission_id}.json"
        self.change = threading.Condition()
        self.stopping = False
        self.supervisor: Any = None

    def driver_id(self) -> str | None:
        """Of the driver that its command has started last."""
        return (self.info.driver_info or {}).get("id")

    def save(self) -> None:
        """Writes down what is known."""
        whole = self._file.with_suffix(".new")
        whole.write_text(json.dumps(asdict(self.info)), encoding="utf-8")
        whole.replace(self._file)

    def forget(self) -> None:
        """Removes what is known. The log stays, as in Ray."""
        self._file.unlink(missing_ok=True)

    def set(self, status: JobStatus, message: str | None = None, **changes: Any) -> None:
        """A step of its life. There is none after the last."""
        with self.change:
            if self.info.status.is_terminal():
                return
            if status.is_terminal():
                changes["end_time"] = int(time.time() * 1000)
            known = {**asdict(self.info), **changes, "status": status, "message": message}
            self.info = JobInfo(**known)
            self.save()
            self.change.notify_all()

    def add_output(self, piece: bytes) -> None:
        """Appends to the log."""
        with self.change, self.log.open("ab") as file:
            file.write(piece)
            self.change.notify_all()

    def follow(self) -> Iterator[bytes]:
        """The log, piece by piece, until the job has ended. Empty pieces now and then, while nothing comes."""
        at = 0
        while True:
            with self.change:
                ended = self.info.status.is_terminal()
                if not ended and self._size() <= at:
                    self.change.wait(_LOOK_S)
                size = self._size()
            if size > at:
                with self.log.open("rb") as file:
                    file.seek(at)
                    piece = file.read(min(size - at, 1 << 18))
                at += len(piece)
                yield piece
            elif ended:
                return
            else:
                yield b""

    def _size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def tail(self) -> str:
        """The last lines of the log."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, self._size() - 4 * _TAIL_CHARS))
            text = file.read().decode(errors="replace")
        return "".join(text.splitlines(keepends=True)[-_TAIL_LINES:])[-_TAIL_CHARS:]


class Manager:
    """All jobs."""

    def __init__(self, folder: Path, join: str) -> None:
        self._folder, self._join = folder, join
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._jobs: dict[str, Job] = {}
        for path in sorted(folder.glob("*.json")):
            info = JobInfo(**json.loads(path.read_text(encoding="utf-8")))
            self._jobs[path.stem] = Job(path.stem, info, folder)
        for job in self._jobs.values():
            if not job.info.status.is_terminal():
                self._begin(job, again=True)

    def connect(self) -> None:
        """Makes this process a driver of the cluster, once there is something to be done in it."""
        import raymesh

        with self._connecting:
            if not raymesh.is_initialized():
                raymesh.init(address=self._join, namespace=NAMESPACE, log_to_driver=False)

    def get(self, submission_id: str) -> Job | None:
        """The job of that id, or that of the driver with that id."""
        with self._lock:
            found = self._jobs.get(submission_id)
            if found is not None:
                return found
            drivers = [job for job in self._jobs.values() if job.driver_id() == submission_id]
            return drivers[-1] if drivers else None

    def all(self) -> list[Job]:
        """Every job, the oldest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: job.info.start_time or 0)

    def submit(self, asked: dict[str, Any]) -> str:
        """Takes in a job (`checked_request`), which starts soon. Raises ValueError for an id that cannot be."""
        from raymesh.runtime_env import _work

        if problem := _labels.check_selector(asked.get("entrypoint_label_selector")):
            raise ValueError(problem)
        submission_id: str | None = asked.pop("submission_id", None) or asked.get("job_id")
        asked.pop("job_id", None)
        if submission_id is None:
            submission_id = "raysubmit_" + "".join(secrets.choice(_LETTERS) for _ in range(16))
        if not _ID.match(submission_id):
            raise ValueError(
                f"submission_id {submission_id!r} must have 1 to 128 letters, digits, '_', '-' and '.'"
            )
        try:
            env = _work.portable(_work.checked(asked.get("runtime_env")))
            _work.refuse_folders(env)
        except NotImplementedError as error:
            raise ValueError(str(error)) from None
        info = JobInfo(status=JobStatus.PENDING, start_time=int(time.time() * 1000), **asked)
        with self._lock:
            if submission_id in self._jobs:
                raise ValueError(
                    f"Job with submission_id {submission_id} already exists. "
                    "Please use a different submission_id."
                )
            job = self._jobs[submission_id] = Job(submission_id, info, self._folder)
        job.save()
        self._begin(job, again=False)
        return submission_id

    def stop(self, job: Job) -> bool:
        """Has it stopped. False: it has ended already."""
        with job.change:
            if job.info.status.is_terminal():
                return False
            job.stopping = True
            pending, supervisor = job.info.status is JobStatus.PENDING, job.supervisor
        if pending:
            job.set(JobStatus.STOPPED)
            if supervisor is not None:
                _kill(supervisor)
        elif supervisor is not None:
            supervisor.stop.remote()
        return True

    def delete(self, job: Job) -> None:
        """Forgets it. RuntimeError unless it has ended."""
        status = job.info.status
        if not status.is_terminal():
            raise RuntimeError(
                f"Attempted to delete job '{job.id}', but it is in a non-terminal state {status}."
            )
        with self._lock:
            self._jobs.pop(job.id, None)
        job.forget()

    def _begin(self, job: Job, *, again: bool) -> None:
        name = f"raymesh-job-{job.id}"
        threading.Thread(target=self._run, args=(job, again), name=name, daemon=True).start()

    def _run(self, job: Job, again: bool) -> None:
        try:
            self.connect()
            supervisor = self._found(job) if again else self._made(job)
            with job.change:
                job.supervisor = supervisor
            if job.info.status.is_terminal():
                _kill(supervisor)
                return
            self._follow(job, supervisor)
        except Exception as error:
            _fail(job, error)
        finally:
            job.supervisor = None

    def _found(self, job: Job) -> Any:
        import raymesh

        return raymesh.get_actor(_name(job.id), namespace=NAMESPACE)

    def _made(self, job: Job) -> Any:
        import raymesh
        from raymesh.job_submission._supervisor import Supervisor

        info = job.info
        resources = dict(info.entrypoint_resources or {})
        anywhere = os.environ.get("RAY_JOB_ALLOW_DRIVER_ON_WORKER_NODES") == "1"
        if not (info.chooses_host() or anywhere):
            resources["node:__internal_head__"] = 0.001
        metadata = {"job_submission_id": job.id, "job_name": job.id, **(info.metadata or {})}
        return (
            raymesh.remote(Supervisor)
            .options(
                name=_name(job.id),
                namespace=NAMESPACE,
                lifetime="detached",
                num_cpus=info.entrypoint_num_cpus or 0,
                num_gpus=info.entrypoint_num_gpus or 0,
                memory=info.entrypoint_memory or None,
                resources=resources or None,
                label_selector=info.entrypoint_label_selector or None,
                max_concurrency=8,
                runtime_env=_supervisor_env(info.runtime_env),
            )
            .remote(job.id, info.entrypoint, metadata, self._join)
        )

    def _follow(self, job: Job, supervisor: Any) -> None:
        import raymesh

        limit = float(os.environ.get("RAY_JOB_START_TIMEOUT_SECONDS", _START_TIMEOUT_S))
        where = raymesh.get(supervisor.start.remote(), timeout=limit)
        job.set(JobStatus.RUNNING, driver_node_id=where["node_id"])
        if job.stopping:
            supervisor.stop.remote()
        while True:
            driver = job.info.driver_info
            answer = raymesh.get(supervisor.read.remote(job._size(), driver))
            piece, code, stopped, now = answer
            if now != driver:
                job.set(JobStatus.RUNNING, driver_info=now)
            if piece:
                job.add_output(piece)
            elif code is not None:
                break
        if stopped:
            job.set(JobStatus.STOPPED, driver_exit_code=code)
        elif code == 0:
            job.set(JobStatus.SUCCEEDED, driver_exit_code=0)
        else:
            tail = job.tail()
            job.set(
                JobStatus.FAILED,
                f"Job entrypoint command failed with exit code {code}"
                + (
                    f", last available logs (truncated to 20,000 chars):\n{tail}"
                    if tail
                    else ". No logs available."
                ),
                driver_exit_code=code,
                error_type=JobErrorType.JOB_ENTRYPOINT_COMMAND_ERROR.value,
            )
        _kill(supervisor)


def _name(submission_id: str) -> str:
    return f"{SUPERVISOR_PREFIX}{submission_id}"


def _supervisor_env(runtime_env: dict[str, Any] | None) -> Any:
    from raymesh.runtime_env import _work

    env = _work.portable(runtime_env or {})
    return env or _work.BARE


def _kill(supervisor: Any) -> None:
    import raymesh

    try:
        raymesh.kill(supervisor)
    except Exception:
        return  # it has ended


def _fail(job: Job, error: Exception) -> None:
    from raymesh import exceptions

    if job.stopping:
        job.set(JobStatus.STOPPED)
        return
    kind, text = JobErrorType.JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE, str(error)
    if isinstance(error, exceptions.GetTimeoutError):
        kind = JobErrorType.JOB_SUPERVISOR_ACTOR_START_TIMEOUT
        text = f"Job supervisor actor failed to start in time. {error}"
        if job.supervisor is not None:
            _kill(job.supervisor)
    elif "RuntimeEnvSetupError" in text:
        kind = JobErrorType.RUNTIME_ENV_SETUP_FAILURE
        text = f"runtime_env setup failed: {text}"
    elif isinstance(error, exceptions.RayActorError | ValueError):
        kind = JobErrorType.JOB_SUPERVISOR_ACTOR_DIED
        text = f"Job supervisor actor died: {text}"
    job.set(JobStatus.FAILED, text, error_type=kind.value)
