"""Which modules the zygote imports ahead of its workers.

Only modules that the program itself has imported, and only those whose import changes nothing that
the user could see in a worker: the standard library, which every zygote takes when it has nothing
else to do, and some others, which a second zygote takes. RAYMESH_PRELOAD=0 turns it off; a list of
names replaces the others.
"""

from __future__ import annotations

import os
import sys

from raymesh import _native

_SOUND = ("networkx", "numpy", "pandas", "psutil", "requests", "sympy", "torch", "yaml")
"""Seen to do nothing at import but to define things: no thread, no file, no variable of the environment."""
_NOT_EARLY = frozenset(
    {"antigravity", "idlelib", "readline", "rlcompleter", "test", "this", "tkinter", "turtle"}
)
"""Of the standard library: what does something at import, or has no business in a worker."""
_asked: set[str] = set()
"""What the zygotes of the runtime that runs have been asked to import."""


def first() -> tuple[list[str], list[str]]:
    """Modules for the zygotes of a runtime that is about to start, and such as any of them may import."""
    _asked.clear()
    return _new(_wanted()), _new(_early())


def update() -> None:
    """Asks for modules that the program has imported since."""
    if _native.is_worker():
        return
    wanted, early = _new(_wanted()), _new(_early())
    if wanted or early:
        _native.preload(wanted, early)


def _new(names: list[str]) -> list[str]:
    new = [name for name in names if name not in _asked]
    _asked.update(new)
    return new


def _wanted() -> list[str]:
    """Modules to import ahead, as far as the program has imported them by now."""
    choice = os.environ.get("RAYMESH_PRELOAD")
    if choice == "0":
        return []
    names = tuple(filter(None, choice.split(","))) if choice else _SOUND
    return [name for name in names if name in sys.modules]


def _early() -> list[str]:
    """Modules of the standard library that the program has imported, in their order."""
    if os.environ.get("RAYMESH_PRELOAD") == "0":
        return []
    library = sys.stdlib_module_names - _NOT_EARLY
    public = [name for name in list(sys.modules) if not name.startswith("_")]
    return [name for name in public if name.partition(".")[0] in library]
