"""What a worker takes up before the first work of a job: variables, paths, packages.

`raymesh.runtime_env._work` says what the bytes are. A worker serves one environment, so nothing is ever undone.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def take_up(data: bytes) -> str:
    """Makes this process what the work needs. Answers the namespace of its job; "" if it has that already.

    Raises RuntimeEnvSetupError if that cannot be done.
    """
    work: dict[str, Any] = json.loads(data)
    env: dict[str, Any] = work.get("runtime_env", {})
    try:
        _settings(work)
        _variables(env.get("env_vars", {}))
        _paths(work, env)
        _hook(env.get("worker_process_setup_hook"))
    except Exception as error:
        from raymesh.exceptions import RuntimeEnvSetupError

        raise RuntimeEnvSetupError(f"{type(error).__name__}: {error}") from error
    namespace: str = work.get("namespace", "")
    return namespace


def _settings(work: Mapping[str, Any]) -> None:
    if work.get("install"):
        from raymesh import compat

        os.environ["RAYMESH_INSTALL"] = "1"
        compat.install()
    if config := work.get("logging"):
        from raymesh import _logging_config

        os.environ[_logging_config.CONFIG_VARIABLE] = config
        _logging_config.apply_from_environment()


def _variables(variables: Mapping[str, str]) -> None:
    from raymesh._worker import environment

    for name, value in variables.items():
        # As in Ray, a value may refer to what is there: "/opt/bin:${PATH}".
        os.environ[name] = os.path.expandvars(value)
    environment.user_chose(variables)


def _paths(work: Mapping[str, Any], env: Mapping[str, Any]) -> None:
    folder = _unpacked(env["working_dir"]) if env.get("working_dir") else None
    packages = [_unpacked(uri) for uri in env.get("py_modules") or ()]
    first = [*([folder] if folder else []), *packages]
    given = (
        os.environ["PYTHONPATH"].split(os.pathsep)
        if "PYTHONPATH" in env.get("env_vars", {})
        else []
    )
    wanted = [*first, *given, *work.get("path", [])]
    for entry in reversed(wanted):
        if entry and (entry in first or entry not in sys.path):
            sys.path.insert(0, entry)
    if first:
        # For programs that it starts.
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([*first, *([inherited] if inherited else [])])
    where = folder or work.get("cwd")
    if where and os.path.isdir(where):
        os.chdir(where)
    importlib.invalidate_caches()


def _unpacked(uri: str) -> str:
    from raymesh.runtime_env import _cache, _keeper

    return str(_cache.hold(uri, lambda into: _keeper.download(uri, into)))


def _hook(hook: Any) -> None:
    if hook is None:
        return
    if isinstance(hook, dict):
        from raymesh import cloudpickle

        cloudpickle.loads(base64.b64decode(hook["pickled"]))()
        return
    module, _, name = hook.rpartition(".")
    getattr(importlib.import_module(module), name)()
