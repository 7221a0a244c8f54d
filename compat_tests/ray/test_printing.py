"""What workers print reaches the driver: to the last line, on the right stream, nothing hidden."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.harness.describe import normalize
from compat_tests.harness.program import Program

Start = Callable[..., Program]


def printed(running: Program) -> list[str]:
    """The lines of a program that has ended."""
    running.process.wait(60)
    running._reader.join(60)
    return [normalize(line) for line in running.seen]


def test_last_line_before_a_crash_is_shown(program: Start) -> None:
    running = program(
        """
        import os
        import raymesh as ray

        @ray.remote(max_retries=0)
        def crash():
            print("last words", flush=True)
            os._exit(1)

        try:
            ray.get(crash.remote())
        except ray.exceptions.WorkerCrashedError:
            pass
        """
    )
    assert "(crash pid=N) last words" in printed(running)


def test_line_without_an_end_before_a_crash_is_shown(program: Start) -> None:
    running = program(
        """
        import os, sys
        import raymesh as ray

        @ray.remote(max_retries=0)
        def crash():
            sys.stdout.write("unfinished")
            sys.stdout.flush()
            os.kill(os.getpid(), 9)

        try:
            ray.get(crash.remote())
        except ray.exceptions.WorkerCrashedError:
            pass
        """
    )
    assert any("unfinished" in line for line in printed(running))


def test_lines_printed_just_before_the_drivers_end_are_shown(program: Start) -> None:
    running = program(
        """
        import raymesh as ray

        @ray.remote
        def speak(n):
            print(f"line {n}")

        ray.get([speak.remote(n) for n in range(50)])
        """
    )
    lines = printed(running)
    for n in range(50):
        assert f"(speak pid=N) line {n}" in lines


def test_lines_that_differ_in_a_number_are_never_folded(program: Start) -> None:
    running = program(
        """
        import raymesh as ray

        @ray.remote(num_cpus=0)
        class Speaker:
            def speak(self, n):
                print(f"step {n} done")

        ray.init(num_cpus=2)
        speakers = [Speaker.remote() for _ in range(3)]
        ray.get([speaker.speak.remote(n) for n, speaker in enumerate(speakers)])
        """
    )
    lines = printed(running)
    assert sum("step" in line for line in lines) == 3


def test_stderr_of_a_task_goes_to_stderr(program: Start) -> None:
    running = program(
        """
        import os, subprocess, sys

        code = '''
        import sys
        import raymesh as ray

        @ray.remote
        def speak():
            print("to out")
            print("to err", file=sys.stderr)

        ray.get(speak.remote())
        '''
        import textwrap
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
        print("right", "to out" in done.stdout, "to err" in done.stderr, "to err" in done.stdout)
        """
    )
    assert running.expect("right") == "True True False"


def test_output_of_a_child_process_and_of_c_code_is_shown(program: Start) -> None:
    running = program(
        """
        import os, subprocess
        import raymesh as ray

        @ray.remote
        def speak():
            subprocess.run(["echo", "from a child"], check=True)
            os.write(1, b"from a descriptor\\n")

        ray.get(speak.remote())
        """
    )
    lines = printed(running)
    assert "(speak pid=N) from a child" in lines
    assert "(speak pid=N) from a descriptor" in lines
