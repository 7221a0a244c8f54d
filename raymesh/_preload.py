"""Which modules the zygote imports ahead of its workers.

Only modules that the program itself has imported, and only those whose import changes nothing that
the user could see in a worker. RAYMESH_PRELOAD=0 turns it off; a list of names replaces the default.
"""

from __future__ import annotations

import os
import sys

from raymesh import _native

_SOUND = ("numpy", "torch")
_asked: list[str] = []
"""What the zygote of the runtime that runs has been asked to import."""


def first() -> list[str]:
    """Modules for the zygote of a runtime that is about to start."""
    _asked[:] = wanted()
    return list(_asked)


def update() -> None:
    """Asks for modules that the program has imported since."""
    if _native.is_worker():
        return
    new = [name for name in wanted() if name not in _asked]
    if new:
        _asked.extend(new)
        _native.preload(new)


def wanted() -> list[str]:
    """Modules to import ahead, as far as the program has imported them by now."""
    choice = os.environ.get("RAYMESH_PRELOAD")
    if choice == "0":
        return []
    names = tuple(filter(None, choice.split(","))) if choice else _SOUND
    return [name for name in names if name in sys.modules]
