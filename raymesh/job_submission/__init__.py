"""Jobs: programs that are handed to a cluster to be run there.

- ``_types``: what is said of a job. ``_client``: `JobSubmissionClient`. ``_address``: where a job server is.
- ``_server``: the process that serves HTTP, beside the head. ``_http``, ``_reading``, ``_websocket``: how.
- ``_manager``: the jobs of a cluster. ``_supervisor``: the actor that runs the command of one.
"""

from __future__ import annotations

from typing import Any

from raymesh.job_submission._types import (
    DriverInfo,
    JobDetails,
    JobErrorType,
    JobInfo,
    JobStatus,
    JobType,
)

__all__ = [
    "DriverInfo",
    "JobDetails",
    "JobErrorType",
    "JobInfo",
    "JobStatus",
    "JobSubmissionClient",
    "JobType",
]


def __getattr__(name: str) -> Any:
    if name == "JobSubmissionClient":
        from raymesh.job_submission._client import JobSubmissionClient

        return JobSubmissionClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
