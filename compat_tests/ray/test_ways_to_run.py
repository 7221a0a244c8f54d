"""raymesh works however a program is started: script, -c, standard input, thread, twice in a process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.harness.program import Program

Start = Callable[..., Program]

TASK = """
import raymesh as ray

@ray.remote
def double(n):
    return 2 * n
"""


def test_command_line_snippet(program: Start) -> None:
    source = (
        "import raymesh as ray; f = ray.remote(lambda n: 2 * n); print('is', ray.get(f.remote(4)))"
    )
    running = program("", command=[sys.executable, "-c", source])
    assert running.expect("is") == "8"
    assert running.wait() == 0
    assert running.gone() == []


def test_interactive_shell(program: Start) -> None:
    running = program("", command=[sys.executable, "-i", "-q"])
    for line in ("import raymesh as ray", "ray.init(num_cpus=1) and None"):
        running.say(line)
    running.say("@ray.remote\ndef double(n):\n    return 2 * n\n")
    running.say("print('\\nis', ray.get(double.remote(21)))")
    assert running.expect("is") == "42"
    running.say("def double(n):\n    return 3 * n\n")
    running.say("print('\\nis', ray.get(ray.remote(double).remote(21)))")
    assert running.expect("is") == "63"
    running.say("raise SystemExit(0)")
    assert running.wait() == 0
    assert running.gone() == []


def test_program_from_standard_input(program: Start) -> None:
    running = program("", command=[sys.executable, "-"])
    running.say(TASK + "print('is', ray.get(double.remote(5)), flush=True)")
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.expect("is") == "10"
    assert running.wait() == 0


def test_init_in_a_thread_that_ends_before_use(program: Start) -> None:
    running = program(
        TASK
        + """
import threading
thread = threading.Thread(target=lambda: ray.init(num_cpus=1))
thread.start()
thread.join()
print("main", ray.get(double.remote(1)), flush=True)
box = []
thread = threading.Thread(target=lambda: box.append(ray.get(double.remote(2))))
thread.start()
thread.join()
print("thread", *box, flush=True)
"""
    )
    assert running.expect("main") == "2"
    assert running.expect("thread") == "4"
    assert running.wait() == 0
    assert running.gone() == []


def test_without_main_guard(program: Start) -> None:
    running = program(
        TASK + "print('is', ray.get([double.remote(n) for n in range(3)]), flush=True)\n"
    )
    assert running.expect("is") == "[0, 2, 4]"
    assert running.wait() == 0


def test_functions_of_a_module_beside_the_script(program: Start, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(
        "import raymesh as ray\n\n@ray.remote\ndef triple(n):\n    return 3 * n\n"
    )
    running = program(
        "import beside\nimport raymesh as ray\nprint('is', ray.get(beside.triple.remote(3)))\n"
    )
    assert running.expect("is") == "9"
    assert running.wait() == 0


def run_command(path: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "raymesh", "run", str(path), *arguments]


def test_run_gives_the_script_its_arguments_and_name(program: Start, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import sys\nprint('argv', sys.argv[1:], __name__, __file__)\nsys.exit(3)\n")
    running = program("", command=run_command(path, "--flag", "value"))
    assert running.expect("argv") == f"['--flag', 'value'] __main__ {path}"
    assert running.wait() == 3


def test_run_makes_import_ray_mean_raymesh_everywhere(program: Start, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import ray\n"
        "from ray.exceptions import RayTaskError\n"
        "\n"
        "@ray.remote\n"
        "def where():\n"
        "    import ray\n"
        "    from ray.exceptions import GetTimeoutError\n"
        "    return ray.__file__, GetTimeoutError.__name__, ray.get(ray.put(1))\n"
        "\n"
        "@ray.remote\n"
        "def fails():\n"
        "    raise ValueError('x')\n"
        "\n"
        "print('driver', 'raymesh' in ray.__file__)\n"
        "file, name, value = ray.get(where.remote())\n"
        "print('worker', 'raymesh' in file, name, value)\n"
        "try:\n"
        "    ray.get(fails.remote())\n"
        "except RayTaskError as error:\n"
        "    print('caught', isinstance(error, ValueError))\n"
    )
    running = program("", command=run_command(path))
    assert running.expect("driver") == "True"
    assert running.expect("worker") == "True GetTimeoutError 1"
    assert running.expect("caught") == "True"
    assert running.wait() == 0
    assert running.gone() == []


def test_run_of_a_missing_script_says_so(program: Start, tmp_path: Path) -> None:
    running = program("", command=run_command(tmp_path / "missing.py"))
    assert running.wait() != 0
    assert "missing.py" in "\n".join(running.seen)


def test_run_shows_the_traceback_of_the_script_alone(program: Start, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import ray\n\ndef f():\n    raise ValueError('mine')\n\nf()\n")
    running = program("", command=run_command(path))
    assert running.wait() == 1
    text = "\n".join(running.seen)
    assert "ValueError: mine" in text
    assert "runpy" not in text


@pytest.mark.usefixtures("nothing_left_behind")
def test_init_and_shutdown_many_times_in_one_process() -> None:
    import raymesh as ray

    @ray.remote
    def one() -> int:
        return 1

    for _ in range(4):
        ray.init(num_cpus=1)
        assert ray.get(one.remote()) == 1
        ray.shutdown()
