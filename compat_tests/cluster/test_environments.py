"""What a program's workers need is there on every host: paths, variables, packages, namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raymesh as ray

Start = Callable[..., Any]

ONE = {"num_cpus": 1, "resources": {"one": 10}}
TWO = {"num_cpus": 1, "resources": {"two": 10}}

SCRIPT = """

import os, sys
import raymesh as ray
from beside_the_script import VALUE, twice

ray.init(address=sys.argv[1], namespace="mine", log_to_driver=False)

@ray.remote
def look():
    import beside_the_script
    context = ray.get_runtime_context()
    return beside_the_script.VALUE, os.getcwd(), context.namespace, os.environ.get("OF_DRIVER")

@ray.remote
class Actor:
    def look(self):
        return ray.get(look.remote()), ray.get_runtime_context().namespace

there = [ray.get(look.options(resources={name: 1}).remote()) for name in ("one", "two")]
assert there == [(VALUE, os.getcwd(), "mine", None)] * 2, there
assert ray.get(ray.remote(twice).options(resources={"two": 1}).remote(4)) == 8
actor = Actor.options(resources={"two": 1}, name="named").remote()
assert ray.get(actor.look.remote()) == (there[0], "mine")
"""


def run(script: str, *arguments: str, folder: Path, **variables: str) -> str:
    """Runs a program whose file lies in a folder of its own; its output."""
    home = folder / "program"
    home.mkdir()
    (home / "script.py").write_text(script)
    (home / "beside_the_script.py").write_text("VALUE = 41\n\ndef twice(x):\n    return 2 * x\n")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, str(home / "script.py"), *arguments],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(Path(ray.__file__).parents[1]), **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_of_all_hosts_import_what_lies_beside_the_program(
    cluster: Start, tmp_path: Path
) -> None:
    address = cluster(ONE, TWO, connect=False).address
    run(SCRIPT, address, folder=tmp_path, OF_DRIVER="not handed on, as in Ray")


@ray.remote
def look(*names: str) -> tuple[int, str, list[str | None]]:
    import packed_module  # type: ignore[import-not-found]

    data = Path("data.bin").read_bytes()
    return len(data), packed_module.NAME, [os.environ.get(name) for name in names]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes several pieces to be carried, and packages of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    root = tmp_path / "project"
    (root / "packed_module").mkdir(parents=True)
    (root / "packed_module" / "__init__.py").write_text("NAME = __name__\n")
    (root / "data.bin").write_bytes(os.urandom(20 << 20))
    return root


def packages(folder: Path) -> list[str]:
    return sorted(
        path.name
        for path in (folder / f"raymesh-packages-{os.getuid()}").iterdir()
        if path.is_dir() and not path.name.startswith("kept-")
    )


def test_a_folder_is_carried_to_every_host_and_goes_with_the_cluster(
    cluster: Start, project: Path, tmp_path: Path
) -> None:
    made = cluster(ONE, TWO, connect=False)
    env = {"working_dir": str(project), "env_vars": {"OF_JOB": "job"}}
    ray.init(address=made.address, runtime_env=env, log_to_driver=False)
    places = [{"one": 1}, {"two": 1}]
    refs = [look.options(resources=place).remote("OF_JOB") for place in places for _ in range(3)]
    assert ray.get(refs, timeout=60) == [(20 << 20, "packed_module", ["job"])] * 6
    assert len(packages(tmp_path)) == 1
    ray.shutdown()
    made.shutdown()
    assert packages(tmp_path) == []


def test_packages_survive_the_driver_that_handed_them_in(
    cluster: Start, project: Path, tmp_path: Path
) -> None:
    made = cluster(ONE, TWO, connect=False)
    ray.init(address=made.address, runtime_env={"working_dir": str(project)}, namespace="n")

    @ray.remote(num_cpus=0, resources={"two": 1}, max_restarts=1)
    class Kept:
        def size(self) -> tuple[int, int]:
            return os.getpid(), len(Path("data.bin").read_bytes())

    kept = Kept.options(name="kept", lifetime="detached").remote()
    pid, size = ray.get(kept.size.remote(), timeout=60)
    ray.shutdown()
    ray.init(address=made.address, namespace="n", log_to_driver=False)
    os.kill(pid, signal.SIGKILL)
    handle = ray.get_actor("kept")
    again = None
    while again is None:
        try:
            again = ray.get(handle.size.remote(), timeout=60)
        except ray.exceptions.RayActorError:
            continue
    assert again[0] != pid
    assert again[1] == size


def test_a_package_that_is_nowhere_fails_what_needs_it_and_nothing_else(cluster: Start) -> None:
    cluster(ONE)
    env = {"working_dir": "gcs://_ray_pkg_0123456789.zip"}
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match="does not have the package"):
        ray.get(look.options(runtime_env=env, max_retries=0).remote(), timeout=60)
    with pytest.raises(ValueError, match="not a valid URI"):
        look.options(runtime_env={"working_dir": "gcs://../../etc.zip"}).remote()
    assert ray.get(ray.remote(lambda: os.getpid()).remote(), timeout=60)


def test_a_killed_keeper_of_packages_still_has_them(cluster: Start, project: Path) -> None:
    made = cluster(ONE, connect=False)
    ray.init(address=made.address, runtime_env={"working_dir": str(project)}, log_to_driver=False)
    from raymesh.runtime_env import _keeper

    kept = _keeper.keeper()
    pid = ray.get(kept.__ray_call__.remote(lambda self: os.getpid()))
    os.kill(pid, signal.SIGKILL)
    assert ray.get(look.options(resources={"one": 1}).remote(), timeout=60)[0] == 20 << 20
