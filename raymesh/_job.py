"""The job of this driver: what `init` is told of it, and what its workers get to know.

`prepared` looks at everything and packs folders before the runtime starts, so that what is wrong is said while nothing
runs; `Job.begin` hands it to the runtime. On the driver's own host workers are born with nearly all of it: without a
`runtime_env` nothing is handed over there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from raymesh.job_config import JobConfig

CONFIG_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set for the entrypoint of a submitted job: its `runtime_env` and `metadata`."""


SUPERVISOR_NAMESPACE = "SUPERVISOR_ACTOR_RAY_NAMESPACE"
SUPERVISOR_PREFIX = "_ray_internal_job_actor_"


class Job:
    """What the workers of this driver take up."""

    def __init__(
        self, runtime_env: dict[str, Any], paths: list[str], actor_lifetime: str = ""
    ) -> None:
        self._runtime_env = runtime_env
        self._paths = paths
        self._actor_lifetime = actor_lifetime
        self._packed: list[tuple[str, Path]] = []

    def pack(self) -> None:
        """Packs what folders there are. Raises ValueError and OSError if that cannot be."""
        from raymesh.runtime_env import _work

        self._runtime_env = _work.with_packages(self._runtime_env, self._packed)

    def begin(self, namespace: str, *, joins: bool) -> None:
        """Lets the runtime, which runs by now, know. Raises RuntimeEnvSetupError if packages cannot be handed in."""
        if not (joins or self._runtime_env or self._paths or self._actor_lifetime):
            return
        from raymesh import _native
        from raymesh.exceptions import RuntimeEnvSetupError
        from raymesh.runtime_env import _work

        try:
            for uri, file in self._packed:
                _hand_in(uri, file, joins=joins)
        except Exception as error:
            raise RuntimeEnvSetupError(
                f"Failed to upload a package to the cluster: {error}"
            ) from error
        work = _work.of_driver(namespace) if joins else {}
        work["path"] = [*self._paths, *work.get("path", [])]
        work["runtime_env"] = _work.portable(self._runtime_env)
        work["actor_lifetime"] = self._actor_lifetime
        if "working_dir" in work["runtime_env"]:
            # The package stands for it.
            here = work.pop("cwd", None)
            work["path"] = [entry for entry in work["path"] if entry != here]
        _native.set_environment(_work.encoded(work))
        if joins and CONFIG_VARIABLE in os.environ:
            _tell_supervisor()

    def close(self) -> None:
        """Removes what was packed."""
        for _, file in self._packed:
            file.unlink(missing_ok=True)


def _tell_supervisor() -> None:
    """That this is the driver of a submitted job, for who asks about that."""
    import json

    from raymesh import _native
    from raymesh._cluster import node_ip_address
    from raymesh.actor import get_actor

    name = json.loads(os.environ[CONFIG_VARIABLE]).get("metadata", {}).get("job_submission_id")
    try:
        supervisor = get_actor(f"{SUPERVISOR_PREFIX}{name}", namespace=SUPERVISOR_NAMESPACE)
    except ValueError:
        return  # the variable is from elsewhere
    job_id = _native.context()["job_id"].hex()
    supervisor.driver_joined.remote(
        {"id": job_id, "node_ip_address": node_ip_address(), "pid": str(os.getpid())}
    )


def _hand_in(uri: str, file: Path, *, joins: bool) -> None:
    import shutil

    from raymesh.runtime_env import _cache, _keeper

    if joins:
        _keeper.upload(uri, file)
    else:
        # Workers of this host find it unpacked; it stays as long as the driver.
        _cache.hold(uri, lambda into: shutil.copyfile(file, into))


def prepared(
    runtime_env: Mapping[str, Any] | None, job_config: JobConfig | None, *, skip_hook: bool = False
) -> Job:
    """What `init` was given, with what a job server has said, checked and packed."""
    asked = _asked(runtime_env, job_config)
    if not asked and job_config is None:
        return Job({}, [])
    from raymesh.runtime_env import _work, check_env_vars

    asked = _work.checked(asked)
    check_env_vars(asked.get("env_vars"))
    paths = [*job_config.code_search_path, *job_config._py_driver_sys_path] if job_config else []
    lifetime = job_config.default_actor_lifetime if job_config else "non_detached"
    job = Job(
        asked,
        [os.path.abspath(path) for path in paths],
        # Nothing is handed over for what is so anyway.
        lifetime if lifetime == "detached" else "",
    )
    try:
        job.pack()
    except BaseException:
        job.close()
        raise
    return job


def ended() -> None:
    """The runtime has ended: packages that nobody else uses go."""
    if cache := sys.modules.get("raymesh.runtime_env._cache"):
        cache.release()


def _asked(runtime_env: Mapping[str, Any] | None, job_config: JobConfig | None) -> dict[str, Any]:
    if runtime_env is None and os.environ.get("RAY_RUNTIME_ENV"):
        import json

        runtime_env = json.loads(os.environ["RAY_RUNTIME_ENV"])
    if runtime_env is not None and not isinstance(runtime_env, Mapping):
        raise TypeError(f"runtime_env must be a dict, not {type(runtime_env).__name__}")
    if not runtime_env and job_config is not None:
        runtime_env = job_config.runtime_env
    given = dict(runtime_env or {})
    if CONFIG_VARIABLE not in os.environ:
        return given
    import json

    submitted: dict[str, Any] = json.loads(os.environ[CONFIG_VARIABLE]).get("runtime_env") or {}
    return _both(submitted, given)


def _both(submitted: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    from raymesh.runtime_env import _work

    variables = set(submitted.get("env_vars") or ()) & set(given.get("env_vars") or ())
    fields = (submitted.keys() & given.keys()) - {"env_vars"}
    if (variables or fields) and os.environ.get("RAY_OVERRIDE_JOB_RUNTIME_ENV") != "1":
        raise ValueError(
            f"Failed to merge the Job's runtime env {submitted} with a ray.init's runtime env {given} because "
            "of a conflict. Specifying the same runtime_env fields or the same environment variable keys is not "
            "allowed. Use RAY_OVERRIDE_JOB_RUNTIME_ENV=1 to instruct Ray to combine Job and Driver's runtime "
            "environment in the event of a conflict."
        )
    return _work.merged(submitted, given)
