"""What `.gitignore`, `.rayignore` and `excludes` leave out of a package: the patterns of git."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

Excluded = Callable[[str], bool]
"""Answers whether a path below the root is left out; that of a folder ends with a slash."""


def from_patterns(lines: Iterable[str]) -> Excluded:
    """The last pattern that matches decides; one with `!` takes back in."""
    rules = [rule for line in lines if (rule := _rule(line)) is not None]

    def excluded(path: str) -> bool:
        verdict = False
        for pattern, negated in rules:
            if pattern.match(path):
                verdict = not negated
        return verdict

    return excluded


def from_files(root: Path, *, gitignore: bool) -> list[Excluded]:
    """What the ignore files in `root` say."""
    names = [".gitignore"] if gitignore else []
    found = (root / name for name in [*names, ".rayignore"])
    return [
        from_patterns(file.read_text(encoding="utf-8", errors="replace").splitlines())
        for file in found
        if file.is_file()
    ]


def _rule(line: str) -> tuple[re.Pattern[str], bool] | None:
    line = line.rstrip("\n")
    if not line.endswith("\\ "):
        line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!").removeprefix("\\")
    folder = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anchored = "/" in line
    body = "".join(_translated(line.lstrip("/")))
    start = "" if anchored else "(?:.*/)?"
    # What lies below an excluded folder is excluded, too.
    end = "/.*" if folder else "(?:/.*)?"
    return re.compile(f"{start}{body}{end}\\Z", re.DOTALL), negated


_TOKEN = re.compile(r"\*\*/|/\*\*\Z|\*\*|\*|\?|\[!?\]?[^\]]*\]|\\.|.", re.DOTALL)


def _translated(pattern: str) -> Iterable[str]:
    for token in _TOKEN.findall(pattern):
        if token == "**/":
            yield "(?:.*/)?"
        elif token == "/**":
            yield "/.*"
        elif token == "**":
            yield ".*"
        elif token == "*":
            yield "[^/]*"
        elif token == "?":
            yield "[^/]"
        elif token.startswith("[") and len(token) > 2:
            inside = token[1:-1].replace("\\", "\\\\")
            yield f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
        else:
            yield re.escape(token[-1])
