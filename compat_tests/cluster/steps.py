"""What tests of clusters do again and again: they give commands, and wait for what comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from compat_tests.harness.discover import ROOT

PATIENCE_S = 60.0


def raymesh(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line, with these variables in its environment."""
    return subprocess.run(
        [sys.executable, "-m", "raymesh", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def until(look: Callable[[], Any], what: str = "what was waited for") -> Any:
    """What `look` finds, once it finds something. For what the interface has no way to wait for."""
    limit = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < limit, f"{what} did not come"
        time.sleep(0.02)
    return found
