"""Compares what a case observed on Ray and on raymesh."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from compat_tests.harness.describe import Plain
from compat_tests.harness.run import Answer


@dataclass(frozen=True)
class Verdict:
    """The outcome of one case."""

    differences: list[str] = field(default_factory=list)
    """One line for each observation in which raymesh does not answer as it should."""
    better: list[str] = field(default_factory=list)
    """Where raymesh is meant to differ from Ray, and does: the reasons."""
    broken: str | None = None
    """Why the case says nothing: it failed on Ray itself."""

    @property
    def passed(self) -> bool:
        return not self.differences and self.broken is None


def _show(value: Plain) -> str:
    return json.dumps(value, ensure_ascii=False)


def _detail(entry: Plain) -> str:
    detail = entry.get("detail", "")
    return f"\n      message: {detail}" if detail else ""


def _agree(theirs: Plain, ours: Plain) -> bool:
    """Equal; of an error's message, raymesh has to say at least what Ray says."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and "says" in theirs and "says" in ours:
        rest = [{k: v for k, v in value.items() if k != "says"} for value in (theirs, ours)]
        said = [word for word, there in theirs["says"].items() if there]
        return rest[0] == rest[1] and all(ours["says"].get(word) for word in said)
    return bool(theirs == ours)


def judge(ray: Answer | None, raymesh: Answer | None) -> Verdict:
    """Compare the observations of one case, entry by entry."""
    if ray is None or ray.failure is not None:
        why = "no answer" if ray is None or ray.failure is None else ray.failure
        return Verdict(broken=f"fails on Ray itself: {why}")
    if raymesh is None:
        return Verdict(["raymesh gave no answer"])
    differences: list[str] = []
    better: list[str] = []
    for index, theirs in enumerate(ray.entries):
        if index >= len(raymesh.entries):
            differences.append(f"{theirs['label']}: not reached")
            break
        ours = raymesh.entries[index]
        if ours["label"] != theirs["label"]:
            differences.append(f"{theirs['label']}: raymesh went on to {ours['label']}")
            break
        if "want" in theirs:
            if ours["value"] == ours["want"]:
                better.append(f"{ours['label']}: {ours['why']}")
            else:
                differences.append(
                    f"{ours['label']}: raymesh {_show(ours['value'])}, wanted {_show(ours['want'])}"
                )
        elif not _agree(theirs["value"], ours["value"]):
            differences.append(
                f"{ours['label']}: Ray {_show(theirs['value'])}"
                f"\n      raymesh {_show(ours['value'])}{_detail(ours)}"
            )
    extra = raymesh.entries[len(ray.entries) :]
    differences.extend(f"{entry['label']}: only on raymesh" for entry in extra)
    if raymesh.failure is not None:
        differences.append(f"raymesh: {raymesh.failure.strip()}")
    return Verdict(differences, better)
