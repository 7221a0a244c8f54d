"""The example over four hosts, some of which die."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "hosts" / "run_with_faults.py"


@pytest.mark.faults
def test_the_search_keeps_its_answer_while_hosts_and_the_head_die_and_one_joins(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "the same answer"
    # The trouble was made.
    for event in (
        "a host is killed",
        "the head is killed",
        "the head is started again",
        "a host joins",
    ):
        assert event in done.stdout
