"""Runtime environments: what workers have before they run the code of a job, a task or an actor.

- ``_work``: what workers are told. ``raymesh._worker.job`` takes it up.
- ``_packages``: folders as packages. ``_ignore``: what is left out of them.
- ``_cache``: packages that are unpacked on this machine. ``_keeper``: where a cluster has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]


class RuntimeEnvConfig(dict[str, Any]):
    """How an environment is set up. Nothing here takes so long that it would have to be limited."""

    known_fields = frozenset({"setup_timeout_seconds", "eager_install", "log_files"})

    def __init__(
        self,
        setup_timeout_seconds: int = 600,
        eager_install: bool = True,
        log_files: list[str] | None = None,
    ) -> None:
        if not isinstance(setup_timeout_seconds, int):
            raise TypeError(
                f"setup_timeout_seconds must be of type int, got: {type(setup_timeout_seconds)}"
            )
        if setup_timeout_seconds <= 0 and setup_timeout_seconds != -1:
            raise ValueError(
                "setup_timeout_seconds must be greater than zero or equal to -1, "
                f"got: {setup_timeout_seconds}"
            )
        if not isinstance(eager_install, bool):
            raise TypeError(f"eager_install must be a boolean. got {type(eager_install)}")
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds,
            eager_install=eager_install,
            log_files=log_files or [],
        )

    def to_dict(self) -> dict[str, Any]:
        """As a plain dict."""
        return dict(self)


class RuntimeEnv(dict[str, Any]):
    """An environment as a dict that has been looked at: `init(runtime_env=RuntimeEnv(...))`."""

    def __init__(
        self,
        *,
        py_modules: list[Any] | None = None,
        py_executable: str | None = None,
        working_dir: str | None = None,
        pip: Any = None,
        conda: Any = None,
        container: dict[str, str] | None = None,
        env_vars: dict[str, str] | None = None,
        worker_process_setup_hook: Callable[[], Any] | str | None = None,
        nsight: Any = None,
        rocprof_sys: Any = None,
        config: dict[str, Any] | RuntimeEnvConfig | None = None,
        _validate: bool = True,
        image_uri: str | None = None,
        uv: Any = None,
        **kwargs: Any,
    ) -> None:
        given = {
            **kwargs,
            "py_modules": py_modules,
            "py_executable": py_executable,
            "working_dir": working_dir,
            "pip": pip,
            "uv": uv,
            "conda": conda,
            "_nsight": nsight,
            "_rocprof_sys": rocprof_sys,
            "container": container,
            "env_vars": env_vars,
            "config": config,
            "worker_process_setup_hook": worker_process_setup_hook,
            "image_uri": image_uri,
        }
        super().__init__({key: value for key, value in given.items() if value is not None})
        if _validate:
            check_env_vars(self.get("env_vars"))
            if sum(self.get(key) is not None for key in ("conda", "pip", "uv")) > 1:
                raise ValueError(
                    "The 'pip' field, 'uv' field, and 'conda' field of runtime_env cannot be specified "
                    "at the same time."
                )

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        """Inverse of `serialize`."""
        return cls(_validate=False, **json.loads(serialized_runtime_env))

    def serialize(self) -> str:
        """As JSON."""
        return json.dumps(self, sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        """As a plain dict."""
        return dict(self)

    def env_vars(self) -> dict[str, str]:
        """The variables."""
        found: dict[str, str] = self.get("env_vars", {})
        return found

    def working_dir(self) -> str:
        """The folder or package; "" without one."""
        return str(self.get("working_dir", ""))

    def has_working_dir(self) -> bool:
        """Whether there is one."""
        return self.get("working_dir") is not None

    def py_modules(self) -> list[str]:
        """The modules."""
        return list(self.get("py_modules", []))


def check_env_vars(env_vars: Any) -> None:
    """TypeError unless they are texts by name."""
    if env_vars is None:
        return
    if not isinstance(env_vars, dict):
        raise TypeError(
            "runtime_env.env_vars must be of type Dict[str, str], got "
            f"{type(env_vars).__name__}: runtime_env['env_vars'] must be of type Dict[str, str]"
        )
    for key, value in env_vars.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                "runtime_env['env_vars'] must be of type Dict[str, str], "
                f"but {key!r}: {value!r} is not"
            )
