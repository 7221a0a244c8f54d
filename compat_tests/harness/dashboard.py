"""What Ray's job server needs beside Ray: in a folder of its own, which only the cases that ask for it have.

With these packages in the environment Ray would start a dashboard, a dozen processes, in every session.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "ray-dashboard"
"""`make test` and `make compare` fill it; `make clean` removes it."""


def use() -> None:
    """Lets this program, and what it starts, import them. Before `ray` is imported."""
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [inherited, str(FOLDER)]))
    sys.path.append(str(FOLDER))
