"""Each case of each area as a test: it passes if raymesh answers as Ray does."""

from __future__ import annotations

from collections import defaultdict

import pytest

from compat_tests.harness.discover import CaseId, absent, all_cases
from compat_tests.harness.run import RAY_IS_HERE, FileAnswers, ray_answers, run_cases
from compat_tests.harness.systems import System
from compat_tests.harness.verdict import Verdict, judge

ASKED_AGAIN = 2
"""How often Ray is asked once more: some of its answers come of what it knows by then."""


class SideBySide:
    """Runs the selected cases of an area on both systems when the first of them is asked for."""

    def __init__(self, selected: dict[str, list[CaseId]]) -> None:
        self._selected = selected
        self._ran: dict[str, tuple[FileAnswers, FileAnswers]] = {}

    def area(self, name: str) -> tuple[FileAnswers, FileAnswers]:
        """What Ray and raymesh answered in an area."""
        if name not in self._ran:
            cases = self._selected[name]
            self._ran[name] = (ray_answers(cases), run_cases(System.RAYMESH, cases))
        return self._ran[name]


@pytest.fixture(scope="session")
def side_by_side(request: pytest.FixtureRequest) -> SideBySide:
    selected: dict[str, list[CaseId]] = defaultdict(list)
    for item in request.session.items:
        found = getattr(item, "callspec", None)
        if found is not None and isinstance(found.params.get("found"), CaseId):
            selected[found.params["found"].area].append(found.params["found"])
    return SideBySide(selected)


def as_ray_at_some_time(found: CaseId, theirs: FileAnswers, ours: FileAnswers) -> Verdict:
    """The verdict on one run of raymesh; where it differs, Ray has to say the same twice more.

    Ray's view of resources, nodes and groups arrives late, so that a busy machine changes what a
    program sees. raymesh is not run again: its answer has to be one that Ray gives.
    """
    answer = ours.answers.get(found.name)
    verdict = judge(theirs.answers.get(found.name), answer)
    for _ in range(ASKED_AGAIN):
        if verdict.passed or not RAY_IS_HERE:
            break
        verdict = judge(run_cases(System.RAY, [found]).answers.get(found.name), answer)
    return verdict


@pytest.mark.side_by_side
@pytest.mark.timeout(900)
@pytest.mark.parametrize("found", all_cases(), ids=str)
def test_answers_as_ray(side_by_side: SideBySide, found: CaseId) -> None:
    if lacking := absent(found):
        pytest.skip(f"needs {', '.join(lacking)}")
    theirs, ours = side_by_side.area(found.area)
    if not RAY_IS_HERE and found.name not in theirs.answers:
        pytest.skip(
            "Ray is not installed, and what it answers was not recorded: run `make compare`"
        )
    verdict = as_ray_at_some_time(found, theirs, ours)
    assert verdict.broken is None, verdict.broken
    assert not verdict.differences, "\n".join(verdict.differences)
    assert not ours.leftovers, f"processes left behind in {found.area}: {ours.leftovers}"
