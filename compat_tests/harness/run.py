"""Runs the cases of one file on one system and collects their answers."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from compat_tests.harness import case as case_module
from compat_tests.harness import describe as describe_module
from compat_tests.harness.case import ANSWERS_VARIABLE
from compat_tests.harness.describe import Plain
from compat_tests.harness.discover import ROOT, CaseId
from compat_tests.harness.systems import System, end_leftovers, new_run_id

CACHE = ROOT / ".cache" / "compat"
"""What Ray answered, by content of the case file: never committed, only spares running it again."""

RAY_IS_HERE = importlib.util.find_spec("ray") is not None
"""False in the environments of `make test-pythons`, which have raymesh alone."""

START_TIMEOUT_S = 120.0
"""How long a file may take before its first case and between cases, beside the cases' own limits."""

GRACE_S = {System.RAY: 20.0, System.RAYMESH: 2.0}
"""How long the processes of an ended program may take to go."""


@dataclass(frozen=True)
class Answer:
    """What one case observed on one system."""

    entries: list[Plain]
    failure: str | None


@dataclass(frozen=True)
class FileAnswers:
    """What the cases of one file observed on one system."""

    answers: Mapping[str, Answer]
    leftovers: list[str]
    """Processes that were still there after the program had ended."""
    output: str
    """What the program printed, for the diagnosis of a failure."""


def run_cases(system: System, cases: Sequence[CaseId]) -> FileAnswers:
    """Run cases of one file; those behind a case that hung or crashed run in a fresh process."""
    path = cases[0].path
    answers: dict[str, Answer] = {}
    leftovers: list[str] = []
    outputs: list[str] = []
    pending = [found.name for found in cases]
    while pending:
        before = len(answers)
        output, left = _run_once(system, path, pending, answers)
        outputs.append(output)
        leftovers.extend(left)
        pending = [name for name in pending if name not in answers]
        if pending and len(answers) == before:
            # Ended without an answer: the first pending case is the one that took it down.
            answers[pending.pop(0)] = Answer([], f"the program ended early\n{output[-3000:]}")
    return FileAnswers(answers, leftovers, "\n".join(outputs))


def _run_once(
    system: System, path: Path, names: Sequence[str], answers: dict[str, Answer]
) -> tuple[str, list[str]]:
    """Start the file once; adds to `answers`; returns its output and the processes it left."""
    run_id = new_run_id()
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        answers_path = Path(folder) / "answers.jsonl"
        environment = {**system.environment(run_id), ANSWERS_VARIABLE: str(answers_path)}
        with open(Path(folder) / "output", "w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(
                system.command(path, names),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
            limit_s = START_TIMEOUT_S + case_module.DEFAULT_TIMEOUT_S * len(names)
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
            left = end_leftovers(run_id, grace_s=GRACE_S[system])
            output.seek(0)
            text = output.read()
        if answers_path.exists():
            for line in answers_path.read_text(encoding="utf-8").splitlines():
                data = json.loads(line)
                answers[data["case"]] = Answer(data["entries"], data["failure"])
    return text, left


def _recorded(path: Path) -> Path:
    """Where the answers of Ray to a case file are kept, as the file and the harness are now."""
    content = hashlib.sha256(path.read_bytes())
    for module in (case_module, describe_module):
        content.update(Path(str(module.__file__)).read_bytes())
    start = f"{path.stem}-{content.hexdigest()[:32]}"
    if RAY_IS_HERE:
        return CACHE / f"{start}-{metadata.version('ray')}-py{platform.python_version()}.json"
    # Of Ray under whichever interpreter it was: a case compares what is the same in all of them.
    return max(CACHE.glob(f"{start}-*.json"), default=CACHE / f"{start}.json")


def ray_answers(cases: Sequence[CaseId], *, fresh: bool = False) -> FileAnswers:
    """What Ray answers; an unchanged file is not run again on the same machine unless `fresh`.

    Where Ray is not installed, only what was recorded before.
    """
    path = cases[0].path
    cached = _recorded(path)
    known: dict[str, Answer] = {}
    if cached.exists() and not fresh:
        stored = json.loads(cached.read_text(encoding="utf-8"))
        known = {name: Answer(**answer) for name, answer in stored.items()}
    missing = [found for found in cases if found.name not in known]
    if not missing or not RAY_IS_HERE:
        return FileAnswers(known, [], "")
    ran = run_cases(System.RAY, missing)
    known.update(ran.answers)
    # A failure on Ray may be an accident of this run: it is asked again the next time.
    sound = {name: vars(answer) for name, answer in known.items() if answer.failure is None}
    CACHE.mkdir(parents=True, exist_ok=True)
    for outdated in CACHE.glob(f"{path.stem}-*.json"):
        outdated.unlink()
    cached.write_text(json.dumps(sound), encoding="utf-8")
    return FileAnswers(known, ran.leftovers, ran.output)
