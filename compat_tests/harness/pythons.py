"""`make test-pythons`: the wheel under every Python that it is declared for and that is on this machine.

For each interpreter a wheel is built and installed into a new environment: first alone, where a program has to run, then
beside pytest and numpy. The tests run from a copy that has no sources of raymesh, so that nothing but the wheel can be
imported. Ray is not there: cases are compared with what Ray answered before under this environment's own interpreter.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from compat_tests.harness.discover import ROOT, all_cases
from compat_tests.harness.run import CACHE, ray_answers

BESIDE = ("numpy", "psutil", "pytest", "pytest-timeout", "threadpoolctl")
"""What the tests need of the `test` extra. torch and Ray are left out: the wheel has to do without."""

ALONE = """
import sys, raymesh

@raymesh.remote
def double(n):
    return 2 * n

assert raymesh.get(double.remote(21)) == 42
assert "site-packages" in raymesh.__file__, raymesh.__file__
"""


def declared() -> list[str]:
    """The versions of Python that pyproject.toml names."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def find(version: str) -> str | None:
    """The path of an interpreter of this version, if there is one that starts."""
    for command in _commands(version):
        try:
            answer = subprocess.run(
                [
                    *command,
                    "-c",
                    "import sys; print(sys.version_info[:2], sys.executable, sep='|')",
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        except OSError:
            continue
        found, _, path = answer.stdout.strip().partition("|")
        if answer.returncode == 0 and found == str(tuple(map(int, version.split(".")))):
            return path
    return None


def _commands(version: str) -> Iterator[list[str]]:
    yield [f"python{version}"]
    if shutil.which("pyenv"):
        listed = _output("pyenv", "versions", "--bare").split()
        for name in reversed([name for name in listed if name.startswith(f"{version}.")]):
            yield [f"{_output('pyenv', 'prefix', name).strip()}/bin/python{version}"]
    if shutil.which("uv"):
        yield [_output("uv", "python", "find", version).strip() or "none"]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def record_answers_of_ray() -> None:
    """Has Ray asked what it answers, as far as that is not known."""
    for _, group in itertools.groupby(all_cases(), key=lambda found: found.area):
        ray_answers(list(group))


def test(python: str, folder: Path, arguments: list[str]) -> bool:
    """Whether the wheel for an interpreter works. `folder` is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    wheels, tree = folder / "wheel", folder / "tree"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    maturin = Path(sys.executable).with_name("maturin")
    _run(
        *(maturin, "build", "--release", "--quiet", "--interpreter", python, "--out", wheels),
        env={**environment, "PYO3_PYTHON": python},
    )
    [wheel] = wheels.glob("*.whl")
    _run(python, "-m", "venv", folder / "venv", env=environment)
    own = folder / "venv" / "bin" / "python"
    pip = (own, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    _run(*pip, wheel, env=environment)
    _run(own, "-I", "-c", ALONE, env=environment)
    _run(*pip, *_requirements(), env=environment)
    shutil.copytree(
        ROOT / "compat_tests", tree / "compat_tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "examples"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tree / name)
    shutil.copytree(CACHE, tree / CACHE.relative_to(ROOT))
    command: list[str | Path] = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode == 0


def _requirements() -> list[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return [re.findall(rf'"({name}[>=][^"]*)"', text)[0] for name in BESIDE]


def _run(*command: str | Path, env: dict[str, str]) -> None:
    subprocess.run(command, cwd=ROOT, env=env, check=True)


def main(arguments: list[str]) -> int:
    """Test all; words that are versions choose some, the others go to pytest."""
    chosen = [word for word in arguments if word in declared()] or declared()
    rest = [word for word in arguments if word not in declared()]
    record_answers_of_ray()
    verdicts: dict[str, str] = {}
    for version in chosen:
        python = find(version)
        if python is None:
            verdicts[version] = "no interpreter on this machine"
            continue
        print(f"== Python {version}: {python}", flush=True)
        with tempfile.TemporaryDirectory(prefix=f"raymesh-python{version}-") as folder:
            try:
                passed = test(python, Path(folder), rest)
            except subprocess.CalledProcessError as error:
                print(error)
                passed = False
            verdicts[version] = "passed" if passed else "FAILED"
    for version, verdict in verdicts.items():
        print(f"Python {version}: {verdict}")
    return 0 if "FAILED" not in verdicts.values() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
