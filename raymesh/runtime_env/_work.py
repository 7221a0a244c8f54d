"""What workers take up for a job, or for some work of it: made here, taken up by `raymesh._worker.job`.

It travels as bytes (JSON, equal when it says the same), which the runtime only compares:

===============  ==============================================================================
`runtime_env`    as in Ray, with packages in place of folders
`namespace`      of the job. Absent if workers are born with it, on the driver's own host
`path`           entries of the driver's `sys.path` that are not the interpreter's own. Likewise
`cwd`            the driver's working directory. Likewise
`install`        `import ray` means raymesh. Likewise
`logging`        the driver's `logging_config`. Likewise
`actor_lifetime` of actors that say none, if the job says: "detached"
===============  ==============================================================================

Without any of it there are no bytes, and a worker does nothing before its first task.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raymesh import _native
from raymesh._later import not_yet
from raymesh.runtime_env import RuntimeEnv

BARE = RuntimeEnv()
"""For actors of the runtime itself, which need nothing of a job. Known by its identity."""

_HERE = ("env_vars", "working_dir", "py_modules", "worker_process_setup_hook")
_HARMLESS = ("config", "excludes", "_ray_commit", "_ray_release", "_inject_current_ray")
_HINTS = {
    "pip": "install the packages on every host before the cluster is started",
    "uv": "install the packages on every host before the cluster is started",
    "conda": "start the hosts inside of the conda environment",
    "container": "start the hosts inside of the container",
    "image_uri": "start the hosts inside of the container",
    "py_executable": "start the hosts with the interpreter that tasks need",
}


def checked(runtime_env: Mapping[str, Any] | None) -> dict[str, Any]:
    """What it asks for, without what is None. NotImplementedError for what cannot be had."""
    asked = {key: value for key, value in (runtime_env or {}).items() if value is not None}
    for key, value in asked.items():
        if key not in _HERE and key not in _HARMLESS and value:
            hint = _HINTS.get(key, "leave it out")
            raise not_yet(f"runtime_env with {key!r}", hint)
    return asked


def of_driver(namespace: str) -> dict[str, Any]:
    """What workers of other hosts need of this process, as far as it is no `runtime_env`."""
    from raymesh._logging_config import CONFIG_VARIABLE

    own = {os.path.abspath(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    entries = [os.path.abspath(entry) for entry in sys.path]
    made: dict[str, Any] = {
        "namespace": namespace,
        "path": [entry for entry in entries if not any(_is_below(entry, prefix) for prefix in own)],
    }
    with contextlib.suppress(OSError):  # it was removed
        made["cwd"] = os.getcwd()
    if os.environ.get("RAYMESH_INSTALL"):
        made["install"] = True
    if config := os.environ.get(CONFIG_VARIABLE):
        made["logging"] = config
    return made


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def encoded(work: Mapping[str, Any]) -> bytes:
    """As workers get it."""
    said = {key: value for key, value in work.items() if value}
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode() if said else b""


def current() -> dict[str, Any]:
    """What this process's own work has."""
    found: dict[str, Any] = json.loads(_native.environment() or b"{}")
    return found


@functools.lru_cache(maxsize=8)
def actor_lifetime(work: bytes) -> str | None:
    """Of actors that such work makes and that say none."""
    lifetime: str | None = json.loads(work).get("actor_lifetime")
    return lifetime


def current_env() -> dict[str, Any]:
    """The `runtime_env` that this process's work has."""
    found: dict[str, Any] = current().get("runtime_env", {})
    return found


def for_options(runtime_env: Mapping[str, Any] | None) -> bytes | None:
    """What work with this option takes up. None: the same as this process."""
    if runtime_env is BARE:
        return b""
    asked = portable(checked(runtime_env))
    if not asked:
        return None
    refuse_folders(asked)
    work = current()
    work["runtime_env"] = merged(work.get("runtime_env", {}), asked)
    if "working_dir" in asked:
        work.pop("cwd", None)
    return encoded(work)


def portable(runtime_env: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent to workers of it."""
    kept = {key: value for key, value in runtime_env.items() if key in _HERE and value}
    hook = kept.get("worker_process_setup_hook")
    if callable(hook):
        import base64

        from raymesh import cloudpickle

        pickled = base64.b64encode(cloudpickle.dumps(hook)).decode()
        kept["worker_process_setup_hook"] = {"pickled": pickled}
    return kept


def merged(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """As in Ray: fields of the child replace those of the parent, variables are taken from both."""
    result = {**parent, **child}
    variables = {**(parent.get("env_vars") or {}), **(child.get("env_vars") or {})}
    if variables:
        result["env_vars"] = variables
    return result


def refuse_folders(asked: Mapping[str, Any]) -> None:
    """ValueError unless what it names are packages, which the cluster has already."""
    for field in ("working_dir", "py_modules"):
        _refuse_folders(field, asked.get(field))


def _refuse_folders(field: str, value: Any) -> None:
    from raymesh.runtime_env import _packages

    for uri in [value] if isinstance(value, str) else value or []:
        if not isinstance(uri, str) or _packages.name_in(uri) is None:
            raise ValueError(
                f"{uri} is not a valid URI. Passing directories or modules to be dynamically uploaded "
                "is only supported at the job level (i.e., passed to `ray.init`).\n"
                f"hint: the {field} of a task or actor is a package that the job has already, such as "
                "gcs://_ray_pkg_0123.zip"
            )


def with_packages(
    runtime_env: Mapping[str, Any], found: list[tuple[str, Path]], *, what: str = "runtime_env"
) -> dict[str, Any]:
    """The same with packages in place of folders. What was packed is added to `found`: its name, and the file,
    which the caller removes.
    """
    result = dict(runtime_env)
    excludes = result.get("excludes") or []
    if not isinstance(excludes, list):
        raise TypeError(f"{what}['excludes'] must be a list of patterns, got {type(excludes)}.")
    if (folder := result.get("working_dir")) is not None:
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"`working_dir` must be a string, got {type(folder)}.")
        result["working_dir"] = _packed(os.fspath(folder), excludes, found, as_module=False)
    if (modules := result.get("py_modules")) is not None:
        if not isinstance(modules, list):
            raise TypeError(f"`py_modules` must be a list of strings, got {type(modules)}.")
        result["py_modules"] = [
            _packed(_path_of(module), excludes, found, as_module=True) for module in modules
        ]
    return result


def _path_of(module: Any) -> str:
    """A module that the driver has imported stands for where it lies."""
    if isinstance(module, str | os.PathLike):
        return os.fspath(module)
    paths = getattr(module, "__path__", None)
    if paths:
        return str(next(iter(paths)))
    if file := getattr(module, "__file__", None):
        return str(file)
    raise TypeError(f"py_modules must be a list of paths, URIs or modules, got {type(module)}.")


def _packed(
    path: str, excludes: list[str], found: list[tuple[str, Path]], *, as_module: bool
) -> str:
    from raymesh.runtime_env import _packages

    scheme, colon, _ = path.partition("://")
    if colon:
        if scheme != "gcs" or _packages.name_in(path) is None:
            raise not_yet(f"a package from {path!r}", "fetch it first, and give the folder")
        return path
    package = _packages.make(path, excludes=excludes, as_module=as_module)
    found.append(package)
    return package.uri
