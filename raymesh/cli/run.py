"""`raymesh run script.py [args]`: a program written against Ray, on raymesh.

The script becomes the `__main__` module, as with `python script.py`: its functions and classes are
pickled by value, its `sys.argv` and `sys.path[0]` are its own, and its tracebacks show no frames of
this runner.
"""

from __future__ import annotations

import itertools
import os
import sys
from types import ModuleType, TracebackType
from typing import NoReturn

from raymesh import compat

USAGE = "usage: raymesh run script.py [args...]\n       raymesh run -m module [args...]\n"


def run(words: list[str]) -> None:
    """Runs the script, or the module after `-m`, with the words that follow it."""
    compat.install()
    if words[0] == "-m":
        if len(words) < 2:
            _fail(USAGE)
        _run_module(words[1], words[2:])
    elif words[0].startswith("-") and words[0] != "-":
        _fail(f"raymesh run: unknown option {words[0]}\n{USAGE}")
    else:
        _run_script(words[0], words[1:])


def _run_script(path: str, arguments: list[str]) -> None:
    if os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    try:
        if path == "-":
            source: bytes | str = sys.stdin.read()
        else:
            with open(path, "rb") as file:
                source = file.read()
    except OSError as error:
        _fail(f"raymesh run: can't open file {path!r}: {error.strerror}\n")
    sys.argv = [path, *arguments]
    sys.path.insert(0, "" if path == "-" else os.path.dirname(os.path.realpath(path)))
    _forget_runner_path()
    # As Python does: `sys.argv[0]` as it was given, `__file__` and tracebacks with the whole path.
    whole = None if path == "-" else os.path.abspath(path)
    main = _new_main(whole)
    try:
        code = compile(source, whole or "<stdin>", "exec")
        exec(code, main.__dict__)
    except Exception as error:
        _show_and_exit(error)


def _run_module(name: str, arguments: list[str]) -> None:
    import runpy

    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    _forget_runner_path()
    if _is_missing(name):
        sys.stderr.write(f"raymesh run: no module named {name!r} in {os.getcwd()} or in sys.path\n")
        sys.exit(1)
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except Exception as error:
        _show_and_exit(error)


def _is_missing(name: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError as error:
        # Its package, and not what that imports.
        return error.name is not None and f"{name}.".startswith(f"{error.name}.")
    except Exception:
        return False  # of a package that fails: it does so again, with its traceback


def _new_main(path: str | None) -> ModuleType:
    main = ModuleType("__main__")
    if path is not None:
        main.__file__ = path
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    # Stays until the interpreter ends: `atexit` functions and other threads look it up.
    sys.modules["__main__"] = main
    return main


def _forget_runner_path() -> None:
    """`python -m raymesh` puts the current folder first; `python script.py` does not."""
    if sys.argv and len(sys.path) > 1 and sys.path[1] == os.getcwd() and _started_with_m():
        del sys.path[1]


def _started_with_m() -> bool:
    return ("-m", "raymesh") in itertools.pairwise(sys.orig_argv)


def _show_and_exit(error: Exception) -> NoReturn:
    # Through the hook that the program may have set, without the frames of this file.
    error = error.with_traceback(_own_frames(error.__traceback__))
    sys.excepthook(type(error), error, error.__traceback__)
    sys.exit(1)


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    skipped = (__file__, "<frozen runpy>")
    while traceback is not None and traceback.tb_frame.f_code.co_filename in skipped:
        traceback = traceback.tb_next
    return traceback


def _fail(text: str) -> NoReturn:
    sys.stderr.write(text)
    sys.exit(2)
