"""Ray's own client is answered by raymesh's job server as it is by Ray's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat_tests.harness import dashboard
from compat_tests.harness.discover import CASES, absent, cases_of
from compat_tests.harness.run import RAY_IS_HERE, ray_answers, run_cases
from compat_tests.harness.systems import System
from compat_tests.harness.verdict import judge
from raymesh.cluster_utils import Cluster

ITS_OWN = ("clients",)
"""Cases about what a client does before it asks anybody."""


@pytest.mark.side_by_side
@pytest.mark.timeout(600)
def test_rays_client_cannot_tell_the_servers_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cases = [found for found in cases_of(CASES / "jobs.py") if found.name not in ITS_OWN]
    lacking = absent(cases[0])
    if lacking or not RAY_IS_HERE:
        pytest.skip(f"needs {', '.join(lacking) or 'ray'}")
    theirs = ray_answers(cases)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    cluster = Cluster(initialize_head=True, head_node_args=dashboard.HEAD)
    try:
        token = cluster.address.rpartition("/")[2].partition(".")[0]
        said = {
            "url": f"http://{cluster.webui_url}",
            "headers": {"Authorization": f"Bearer {token}"},
            "system": "raymesh",
        }
        monkeypatch.setenv(dashboard.SERVER_VARIABLE, json.dumps(said))
        monkeypatch.delenv("TMPDIR")
        ours = run_cases(System.RAY, cases)
    finally:
        cluster.shutdown()
    assert not ours.leftovers
    wrong = {}
    for found in cases:
        verdict = judge(theirs.answers.get(found.name), ours.answers.get(found.name))
        if not verdict.passed:
            wrong[found.name] = verdict.broken or "\n".join(verdict.differences)
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
