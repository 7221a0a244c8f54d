"""`import ray` means raymesh after `install`, and says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(source, *arguments, **environment):
    """Runs a program that may not start the runtime; returns its output."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def check(source, **environment):
    done = python(source, **environment)
    assert done.returncode == 0, done.stderr


def test_modules_are_the_same_objects():
    check("""
        import raymesh
        spec = raymesh.exceptions.__spec__
        raymesh.install()
        import ray
        import ray.exceptions, ray.util, ray.actor, ray.remote_function, ray.runtime_context
        from ray.exceptions import RayTaskError
        from ray import cloudpickle
        assert ray is raymesh
        assert ray.exceptions is raymesh.exceptions
        assert RayTaskError is raymesh.exceptions.RayTaskError
        assert raymesh.exceptions.__spec__ is spec and spec.name == "raymesh.exceptions"
        import sys
        assert sys.modules["ray.util"] is sys.modules["raymesh.util"]
        raymesh.install()
    """)


@pytest.mark.parametrize(
    "statement",
    [
        "import ray.tune",
        "from ray import tune",
        "from ray.util.queue import Queue",
        "from ray.util import queue",
        "import ray.data.context",
    ],
)
def test_missing_module_is_named(statement):
    done = python(f"import raymesh; raymesh.install()\n{statement}")
    assert done.returncode == 1
    assert "ModuleNotFoundError: ray." in done.stderr
    assert "is not in raymesh yet" in done.stderr


def test_missing_name_can_be_asked_for():
    check("""
        import raymesh; raymesh.install()
        import ray
        assert not hasattr(ray, "tune")
        assert getattr(ray, "no_such_thing", None) is None
        try:
            import ray.tune
        except ImportError as error:
            assert error.name == "ray.tune"
    """)


def test_later_function_says_so_when_it_is_called():
    check("""
        import raymesh as ray
        for function in (ray.cancel, ray.timeline, ray.util.register_serializer):
            try:
                function(1)
            except NotImplementedError as error:
                assert "not in raymesh yet" in str(error) and "hint: " in str(error)
            else:
                raise AssertionError(function)
        assert not isinstance(1, ray.ObjectRefGenerator)
    """)


@pytest.mark.parametrize("name", ["ray.data", "ray.util.ActorPool"])
def test_attribute_that_is_missing_says_that_it_is_not_a_typing_error(name):
    done = python(f"import raymesh as ray; {name}")
    assert "AttributeError: module 'raymesh" in done.stderr
    assert "hint: " in done.stderr
    assert "hint: " not in python("import raymesh as ray; ray.gett").stderr


def test_run_of_a_module_that_is_missing_shows_no_traceback():
    command = [sys.executable, "-m", "raymesh", "run", "-m"]
    done = subprocess.run([*command, "no.such"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("raymesh run: no module named 'no.such'")


def test_process_of_a_driver_that_installed_does_so_too():
    check(
        "import raymesh, sys, ray; assert sys.modules['ray'] is raymesh",
        RAYMESH_INSTALL="1",
    )


def test_install_after_ray_itself_is_refused():
    done = python("""
        import sys, types
        sys.modules["ray"] = types.ModuleType("ray")
        import raymesh
        raymesh.install()
    """)
    assert "RuntimeError: Ray itself has been imported" in done.stderr
    assert "hint: " in done.stderr


def test_import_loads_nothing_heavy():
    check("""
        import sys
        before = set(sys.modules)
        import raymesh
        heavy = {"numpy", "torch", "asyncio", "click", "rich", "cloudpickle", "inspect",
                 "logging", "concurrent.futures", "socket", "multiprocessing", "uuid", "ray"}
        loaded = heavy & (set(sys.modules) - before)
        assert not loaded, loaded
    """)


def test_every_public_name_is_there():
    check("""
        import raymesh
        missing = [name for name in raymesh.__all__ if not hasattr(raymesh, name)]
        assert not missing, missing
        assert set(raymesh.__all__) <= set(dir(raymesh))
    """)


def test_decorators_start_nothing_and_pickle_nothing():
    check("""
        import raymesh as ray, sys
        lock = __import__("threading").Lock()
        @ray.remote
        def f():
            return lock
        @ray.remote(num_cpus=1)
        class A:
            def m(self):
                return lock
        f.options(num_cpus=2)
        A.options(name="x")
        assert not ray.is_initialized()
        assert "cloudpickle" not in sys.modules
    """)


@pytest.fixture
def script(tmp_path):
    def write(source, name="script.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return path

    return write


def run(*words, cwd=None):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "raymesh", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_script_is_the_main_program(script, tmp_path):
    script("value = 5", "neighbour.py")
    path = script("""
        import atexit, os, pickle, sys, ray, raymesh
        import neighbour
        assert ray is raymesh and neighbour.value == 5
        assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals()
        assert __file__ == sys.argv[0] and sys.argv[1:] == ["--flag", "-x", "run"], sys.argv
        assert sys.path[0] == os.path.dirname(os.path.realpath(__file__))
        def f(): pass
        assert f.__module__ == "__main__"
        pickle.loads(pickle.dumps(f))
        atexit.register(lambda: print("at exit", sys.modules["__main__"].f.__name__))
        print("done")
    """)
    done = run("run", path, "--flag", "-x", "run", cwd=tmp_path.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\nat exit f\n"


def test_module_is_run(script, tmp_path):
    script("import sys, ray; print(__name__, sys.argv[1:])", "program.py")
    done = run("run", "-m", "program", "a", "-b", cwd=tmp_path)
    assert done.stdout == "__main__ ['a', '-b']\n", done.stderr


def test_error_of_the_script_shows_its_own_frames_only(script):
    path = script("def f():\n    raise ValueError('mine')\nf()\n")
    done = run("run", path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.count("  File ") == 2
    assert done.stderr.endswith("ValueError: mine\n")


def test_exit_code_of_the_script_is_kept(script):
    assert run("run", script("import sys; sys.exit(7)")).returncode == 7


def test_syntax_error_and_missing_script_are_told(script):
    assert "SyntaxError" in run("run", script("def (:")).stderr
    done = run("run", "no_such_script.py")
    assert done.returncode == 2
    assert "no_such_script.py" in done.stderr


def test_version_and_help():
    assert "0.1.0" in run("--version").stdout
    assert "doctor" in run("--help").stdout


def test_doctor_tells_about_everything():
    done = run("doctor")
    assert done.returncode == 0, done.stderr
    for what in ("cores", "memory", "shared memory", "futex", "pidfd", "RDMA", "GPUs", "Python"):
        assert what in done.stdout, what


def test_source_tree_without_an_extension_says_what_to_do(tmp_path):
    shutil.copytree(ROOT / "raymesh", tmp_path / "raymesh", ignore=shutil.ignore_patterns("*.so"))
    command = [sys.executable, "-c", "import raymesh"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "has no extension for Python" in done.stderr
    assert "make build" in done.stderr
