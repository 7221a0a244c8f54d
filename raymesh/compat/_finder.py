"""Import hooks: `ray.x` is `raymesh.x`, and what is missing is named as missing.

`AliasFinder` stands first and answers for `ray.*`. `MissingFinder` stands last, so that it is asked
only for modules of raymesh that nobody found: `from ray import tune` ends there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class AliasFinder(MetaPathFinder):
    """Finds `ray.*` as the module of raymesh of the same name."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != "ray" and not fullname.startswith("ray."):
            return None
        own_name = f"raymesh{fullname[len('ray') :]}"
        try:
            module = importlib.import_module(own_name)
        except ModuleNotFoundError as error:
            if error.name is not None and not _is_ours(error.name):
                raise
            raise missing(fullname) from None
        return ModuleSpec(fullname, _AliasLoader(module), is_package=hasattr(module, "__path__"))


class _AliasLoader(Loader):
    """Hands out a module that is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._own_spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the spec of the alias into the module by now.
        module.__spec__ = self._own_spec


class MissingFinder(MetaPathFinder):
    """Tells that a module of Ray is not there yet."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        if not fullname.startswith("raymesh.") or name.startswith("_"):
            return None
        module = sys.modules.get(parent)
        if module is not None and not hasattr(module, "__path__"):
            return None
        raise missing(f"ray{fullname[len('raymesh') :]}")


def missing(name: str) -> ModuleNotFoundError:
    """The error for a module of Ray that does not exist here."""
    return ModuleNotFoundError(
        f"{name} is not in raymesh yet.\n"
        "hint: the tables in README.md and docs/ say what is; run this program on Ray meanwhile.",
        name=name,
    )


def _is_ours(name: str) -> bool:
    return name == "ray" or name.startswith(("ray.", "raymesh."))
