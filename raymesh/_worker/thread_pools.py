"""How many threads the math libraries of a worker use: as many as its lease has CPUs.

A library reads `OMP_NUM_THREADS` once, when it is loaded. Those that the zygote imports ahead are
loaded before it is known what a worker will run, so they are loaded with `AHEAD`, what most work
has, and told when it turns out to be more. Afterwards they are as in a worker that imported them
itself, but for one thing: a task that sets the variable by its own hand comes too late.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

VARIABLE = "OMP_NUM_THREADS"
AHEAD = 1
"""The threads of a task with one CPU, and of an actor without an option."""


class _Library(NamedTuple):
    """A kind of library: its files, the user's own variable for it, and what sets its threads."""

    files: re.Pattern[str]
    variable: str
    setters: tuple[str, ...]
    by_thread: bool = False
    """What is set holds for the thread that sets it."""


_OPENBLAS = tuple(
    f"{prefix}openblas_set_num_threads{suffix}"
    for prefix in ("", "scipy_")
    for suffix in ("", "64_", "_64")
)
_LIBRARIES = (
    _Library(re.compile(r"openblas"), "OPENBLAS_NUM_THREADS", _OPENBLAS),
    _Library(re.compile(r"mkl_rt"), "MKL_NUM_THREADS", ("MKL_Set_Num_Threads",)),
    _Library(re.compile(r"\blibblis"), "BLIS_NUM_THREADS", ("bli_thread_set_num_threads",)),
    _Library(re.compile(r"\blib(g|i|)omp\b"), VARIABLE, ("omp_set_num_threads",), by_thread=True),
)
_threads = AHEAD


@contextmanager
def loading_ahead() -> Iterator[None]:
    """Around imports in the zygote."""
    if VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = str(AHEAD)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)


def follow(threads: int) -> None:
    """Has what is loaded use this many threads."""
    global _threads
    if threads == _threads:
        return
    _threads = threads
    _tell(threads, only_by_thread=False)
    torch, numexpr = sys.modules.get("torch"), sys.modules.get("numexpr")
    if torch is not None:
        torch.set_num_threads(threads)
    if numexpr is not None and "NUMEXPR_NUM_THREADS" not in os.environ:
        numexpr.set_num_threads(threads)


def start_thread() -> None:
    """In a new thread that runs calls: what libraries keep by thread."""
    if _threads != AHEAD and VARIABLE in os.environ:
        _tell(_threads, only_by_thread=True)


def _tell(threads: int, *, only_by_thread: bool) -> None:
    for path in _mapped():
        name = os.path.basename(path)
        for library in _LIBRARIES:
            wanted = library.by_thread or not only_by_thread
            chosen_by_user = library.variable != VARIABLE and library.variable in os.environ
            if wanted and not chosen_by_user and library.files.search(name):
                _set(path, library.setters, threads)


def _set(path: str, setters: tuple[str, ...], threads: int) -> None:
    try:
        library: Any = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
    except OSError:
        return
    for setter in setters:
        if hasattr(library, setter):
            getattr(library, setter)(ctypes.c_int(threads))
            return


def _mapped() -> list[str]:
    """Files of the libraries that are loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        fields = (line.rstrip("\n").split(maxsplit=5) for line in maps)
        return list(
            dict.fromkeys(part[5] for part in fields if len(part) == 6 and ".so" in part[5])
        )
