"""Each case of each area as a test: it passes if raymesh answers as Ray does."""

from __future__ import annotations

from collections import defaultdict

import pytest

from compat_tests.harness.discover import CaseId, absent, all_cases
from compat_tests.harness.run import RAY_IS_HERE, FileAnswers, ray_answers, run_cases
from compat_tests.harness.systems import System
from compat_tests.harness.verdict import judge


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
    verdict = judge(theirs.answers.get(found.name), ours.answers.get(found.name))
    assert verdict.broken is None, verdict.broken
    assert not verdict.differences, "\n".join(verdict.differences)
    assert not ours.leftovers, f"processes left behind in {found.area}: {ours.leftovers}"
