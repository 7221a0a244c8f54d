"""Which modules the zygote imports ahead of its workers.

Only modules that the program itself has imported, and only those whose import changes nothing that
the user could see in a worker. RAYMESH_PRELOAD=0 turns it off; a list of names replaces the default.
"""

from __future__ import annotations

import os
import sys

_SOUND = ("numpy", "torch")


def wanted() -> list[str]:
    """Modules to import ahead, as far as the program has imported them by now."""
    choice = os.environ.get("RAYMESH_PRELOAD")
    if choice == "0":
        return []
    names = tuple(filter(None, choice.split(","))) if choice else _SOUND
    return [name for name in names if name in sys.modules]
