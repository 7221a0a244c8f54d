"""Ray's job server: what it needs beside Ray, and the head whose server the cases about jobs ask.

The packages lie in a folder of their own, which only the cases that ask for it have: with them in the environment Ray
would start a dashboard, a dozen processes, in every session.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from compat_tests.harness.case import MB

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "ray-dashboard"
"""`make test` and `make compare` fill it; `make clean` removes it."""

HEAD: dict[str, Any] = {
    "num_cpus": 2,
    "object_store_memory": 100 * MB,
    "labels": {"zone": "here"},
    "include_dashboard": True,
}
"""Options of the head."""

SERVER_VARIABLE = "COMPAT_JOB_SERVER"
"""A server that runs already, for a client that is not its own: as JSON, its URL, the headers and the system."""


def use() -> None:
    """Lets this program, and what it starts, import them. Before `ray` is imported."""
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [inherited, str(FOLDER)]))
    sys.path.append(str(FOLDER))
