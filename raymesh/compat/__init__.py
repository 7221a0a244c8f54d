"""Running programs written against `import ray`.

`install()` makes `import ray`, and of every module below it that exists here, mean raymesh: the
modules are the same objects. Workers do the same when their driver did (`RAYMESH_INSTALL=1`).
"""

from __future__ import annotations

import os
import sys

_VARIABLE = "RAYMESH_INSTALL"


def install() -> None:
    """From now on, here and in the workers, `import ray` means raymesh.

    Raises RuntimeError when Ray itself has been imported already.
    """
    if _ray_is_loaded():
        raise RuntimeError(
            "Ray itself has been imported in this process already.\n"
            "hint: call raymesh.install() before the first `import ray`, or run the program with "
            "`raymesh run script.py`."
        )
    _install()
    os.environ[_VARIABLE] = "1"


def install_if_possible() -> None:
    """`install` for a process that was started by one that did; not if Ray was imported first."""
    if not _ray_is_loaded():
        _install()


def _ray_is_loaded() -> bool:
    loaded = sys.modules.get("ray")
    return loaded is not None and loaded is not sys.modules.get("raymesh")


def _install() -> None:
    from raymesh.compat._finder import AliasFinder, MissingFinder

    if any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, AliasFinder())
    sys.meta_path.append(MissingFinder())
    sys.modules["ray"] = sys.modules["raymesh"]


__all__ = ["install", "install_if_possible"]
