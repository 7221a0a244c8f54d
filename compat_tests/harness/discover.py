"""Finds case files and their cases by reading them, so that collecting tests starts nothing."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from compat_tests.harness import dashboard

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "compat_tests" / "ray"


@dataclass(frozen=True, order=True)
class CaseId:
    """A case, named by its area (the file's stem) and its function."""

    area: str
    name: str

    @property
    def path(self) -> Path:
        return CASES / f"{self.area}.py"

    def __str__(self) -> str:
        return f"{self.area}::{self.name}"


def _is_mark(node: ast.expr) -> bool:
    target = node.func if isinstance(node, ast.Call) else node
    return isinstance(target, ast.Name) and target.id == "case"


def cases_of(path: Path) -> list[CaseId]:
    """The cases of a file in their order."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return [
        CaseId(path.stem, node.name)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(map(_is_mark, node.decorator_list))
    ]


def all_cases() -> list[CaseId]:
    """Every case of every area, areas in alphabetical order."""
    files = sorted(path for path in CASES.glob("*.py") if not path.stem.startswith(("test_", "_")))
    return [found for path in files for found in cases_of(path)]


def absent(found: CaseId) -> list[str]:
    """What a case needs and is not here: a newer Python, modules that its first lines import or its file NEEDS."""
    tree = ast.parse(found.path.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    [function] = [node for node in functions if node.name == found.name]
    imports = [node for node in function.body if isinstance(node, ast.Import)]
    names = {alias.name.partition(".")[0] for node in imports for alias in node.names} - {"ray"}
    lacking = sorted(name for name in names.union(_needed(tree)) if not _is_here(name))
    since = _since(function)
    if sys.version_info < since:
        lacking.append(f"Python {since[0]}.{since[1]}")
    return lacking


def _needed(tree: ast.Module) -> list[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("NEEDS")], value=value):
                return list(ast.literal_eval(value))
    return []


def _is_here(name: str) -> bool:
    beside = importlib.machinery.PathFinder.find_spec(name, [str(dashboard.FOLDER)])
    return importlib.util.find_spec(name) is not None or beside is not None


def _since(function: ast.FunctionDef) -> tuple[int, int]:
    for mark in function.decorator_list:
        for keyword in mark.keywords if isinstance(mark, ast.Call) else ():
            if keyword.arg == "since":
                major, minor = ast.literal_eval(keyword.value)
                return major, minor
    return 3, 10


def title_of(area: str) -> str:
    """The first line of an area's docstring: the feature that it covers."""
    tree = ast.parse((CASES / f"{area}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or area).splitlines()[0].rstrip(".")
