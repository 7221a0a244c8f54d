"""What is said of a job, with Ray's names and texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any


class JobStatus(str, Enum):
    """Where a job stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def __str__(self) -> str:
        return self.value

    def is_terminal(self) -> bool:
        """Whether nothing comes after it."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobErrorType(str, Enum):
    """What kind of fault ended a job."""

    RUNTIME_ENV_SETUP_FAILURE = "RUNTIME_ENV_SETUP_FAILURE"
    JOB_SUPERVISOR_ACTOR_START_TIMEOUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
    JOB_SUPERVISOR_ACTOR_START_FAILURE = "JOB_SUPERVISOR_ACTOR_START_FAILURE"
    JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE = "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"
    JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE = "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"
    JOB_SUPERVISOR_ACTOR_DIED = "JOB_SUPERVISOR_ACTOR_DIED"
    JOB_ENTRYPOINT_COMMAND_START_ERROR = "JOB_ENTRYPOINT_COMMAND_START_ERROR"
    JOB_ENTRYPOINT_COMMAND_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"


class JobType(str, Enum):
    """How a job came to be."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


_MESSAGES = {
    JobStatus.PENDING: "Job has not started yet.",
    JobStatus.RUNNING: "Job is currently running.",
    JobStatus.STOPPED: "Job was intentionally stopped.",
    JobStatus.SUCCEEDED: "Job finished successfully.",
    JobStatus.FAILED: "Job failed.",
}


@dataclass
class JobInfo:
    """A submitted job."""

    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    """A Unix timestamp in ms. So is `end_time`."""
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    entrypoint_label_selector: dict[str, str] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None
    driver_info: dict[str, str] | None = None

    def __post_init__(self) -> None:
        self.status = JobStatus(self.status)
        if self.message is None:
            self.message = _MESSAGES[self.status]
            if self.status is JobStatus.PENDING:
                self.message += self._may_wait_for()

    def _may_wait_for(self) -> str:
        text = ""
        if self.needs_resources():
            text += " It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available."
        if self.runtime_env:
            text += " It may be waiting for the runtime environment to be set up."
        return text

    def needs_resources(self) -> bool:
        """Whether it was said what the command needs."""
        return bool(
            self.entrypoint_num_cpus
            or self.entrypoint_num_gpus
            or self.entrypoint_memory
            or self.entrypoint_resources
        )

    def chooses_host(self) -> bool:
        """Whether what was said decides where the command runs: else it is the head's host."""
        return self.needs_resources() or bool(self.entrypoint_label_selector)


@dataclass
class DriverInfo:
    """The driver of a job."""

    id: str
    node_ip_address: str
    pid: str


@dataclass
class JobDetails:
    """A job as the job server tells of it."""

    type: JobType
    status: JobStatus
    entrypoint: str
    job_id: str | None = None
    submission_id: str | None = None
    driver_info: DriverInfo | None = None
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> JobDetails:
        """From the server's answer; keys that are not known are left out."""
        known = {field.name for field in fields(cls)}
        details = cls(**{key: value for key, value in said.items() if key in known})
        details.type, details.status = JobType(details.type), JobStatus(details.status)
        if driver := said.get("driver_info"):
            details.driver_info = DriverInfo(**driver)
        return details

    @classmethod
    def of(cls, submission_id: str, info: JobInfo) -> JobDetails:
        """Of a submitted job."""
        known = {field.name for field in fields(cls)}
        shared = {key: value for key, value in asdict(info).items() if key in known}
        job_id = (info.driver_info or {}).get("id")
        return cls(type=JobType.SUBMISSION, submission_id=submission_id, job_id=job_id, **shared)

    def dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


_NUMBERS: dict[str, tuple[Any, str]] = {
    "entrypoint_num_cpus": ((int, float), "a number"),
    "entrypoint_num_gpus": ((int, float), "a number"),
    "entrypoint_memory": (int, "an integer"),
}
_TABLES: dict[str, tuple[Any, str]] = {
    "runtime_env": (object, "anything"),
    "metadata": (str, "strings"),
    "entrypoint_resources": ((int, float), "numbers"),
    "entrypoint_label_selector": (str, "strings"),
}
_REQUEST = {"entrypoint", "submission_id", "job_id", *_NUMBERS, *_TABLES}


def check_types(said: Mapping[str, Any]) -> None:
    """TypeError for what cannot be a wish for a job. What is None is not said."""
    if not isinstance(said.get("entrypoint"), str):
        raise TypeError(f"entrypoint must be a string, got {type(said.get('entrypoint'))}")
    asked = {key: value for key, value in said.items() if value is not None}
    for key in ("submission_id", "job_id"):
        if not isinstance(asked.get(key, ""), str):
            raise TypeError(f"{key} must be a string if provided, got {type(asked[key])}")
    for key, (kind, words) in _NUMBERS.items():
        value = asked.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, kind):
            raise TypeError(f"{key} must be {words}, got {type(value)}")
    for key, (kind, words) in _TABLES.items():
        table = asked.get(key, {})
        if not isinstance(table, dict):
            raise TypeError(f"{key} must be a dict, got {type(table)}")
        for name, value in table.items():
            if not isinstance(name, str):
                raise TypeError(f"{key} keys must be strings, got {type(name)}")
            if not isinstance(value, kind):
                raise TypeError(f"{key} values must be {words}, got {type(value)}")


def checked_request(said: Any) -> dict[str, Any]:
    """The wish for a job as it arrives, without what is None. TypeError or ValueError if it is none."""
    if not isinstance(said, dict):
        raise TypeError("a job is submitted as a JSON object")
    if unknown := sorted(said.keys() - _REQUEST):
        raise TypeError(f"unexpected keys {unknown}; known are {sorted(_REQUEST)}")
    check_types(said)
    asked = {key: value for key, value in said.items() if value is not None}
    for key in _NUMBERS:
        if not 0 <= asked.get(key, 0) < float("inf"):
            raise ValueError(f"{key} must not be negative, got {asked[key]}")
    return asked
