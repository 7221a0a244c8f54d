"""`JobConfig`: what a driver says of its job beside `init`'s keywords, or what `raymesh job submit` says for it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

__all__ = ["JobConfig"]


class JobConfig:
    """What a job needs: `init(job_config=JobConfig(ray_namespace="mine"))`."""

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: list[str] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        _client_job: bool = False,
        metadata: dict[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _disable_job_level_lineage_reconstruction: bool = False,
        _py_driver_sys_path: list[str] | None = None,
    ) -> None:
        search = code_search_path or []
        if not isinstance(search, list | tuple):
            raise TypeError(f"The type of code search path is incorrect: {type(search)}")
        self.jvm_options = jvm_options or []
        self.code_search_path = list(search)
        self.metadata = dict(metadata or {})
        self.ray_namespace = ray_namespace
        self._py_driver_sys_path = list(_py_driver_sys_path or [])
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)

    def set_metadata(self, key: str, value: str) -> None:
        """Adds a word about the job."""
        self.metadata[key] = value

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """The namespace in which names of actors are looked up."""
        self.ray_namespace = ray_namespace

    def set_runtime_env(
        self, runtime_env: Mapping[str, Any] | None, validate: bool = False
    ) -> None:
        """What workers of the job have."""
        self.runtime_env = dict(runtime_env) if runtime_env else {}
        if validate:
            from raymesh.runtime_env import RuntimeEnv

            self.runtime_env = RuntimeEnv(**self.runtime_env)

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """What actors of the job have that say no `lifetime`."""
        if default_actor_lifetime not in ("detached", "non_detached"):
            raise ValueError(
                "Default actor lifetime must be one of `detached`, `non_detached`, got "
                f"{default_actor_lifetime!r}"
            )
        self.default_actor_lifetime = default_actor_lifetime

    def get_namespace(self) -> str:
        """The namespace, a new one if none was given."""
        if self.ray_namespace is None:
            self.ray_namespace = str(uuid.uuid4())
        return self.ray_namespace

    @classmethod
    def from_json(cls, job_config_json: Mapping[str, Any]) -> JobConfig:
        """From what a job server has left in the environment."""
        return cls(
            runtime_env=job_config_json.get("runtime_env"),
            metadata=job_config_json.get("metadata"),
            ray_namespace=job_config_json.get("ray_namespace"),
        )
