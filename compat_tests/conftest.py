"""Fixtures for tests of raymesh alone."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from compat_tests.harness.leaks import Belongings, leaked_since
from compat_tests.harness.program import Program

SESSION = {"num_cpus": 2, "object_store_memory": 100 * 1024 * 1024, "log_to_driver": False}


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell that starts the tests in the background has them ignore SIGINT, and all they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def nothing_left_behind() -> Iterator[None]:
    """Fails the test if a process, thread, file descriptor or shared memory of it stays."""
    before = Belongings.now()
    yield
    left = leaked_since(before)
    assert not left, "left behind:\n  " + "\n  ".join(left)


@pytest.fixture
def raymesh_session(nothing_left_behind: None) -> Iterator[ModuleType]:
    """A running session of raymesh; afterwards nothing of it may be there any more."""
    import raymesh

    raymesh.init(**SESSION)
    try:
        yield raymesh
    finally:
        raymesh.shutdown()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts programs on raymesh in a process of their own; ends what is left of them."""
    started: list[Program] = []

    def start(source: str, **options: object) -> Program:
        made = Program.start(source, tmp_path / f"program_{len(started)}.py", **options)  # type: ignore[arg-type]
        started.append(made)
        return made

    yield start
    for made in started:
        made.end()
