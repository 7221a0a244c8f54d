"""What a case file imports.

A case file is a plain Ray program: it imports `ray`, marks functions with `@case`, and ends with `main(globals())`. Each
case records what it observes; the harness runs the file on Ray and on raymesh and compares the records. A file can be run by
hand too: `python compat_tests/ray/tasks.py [case ...]`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from compat_tests.harness.capture import Capture
from compat_tests.harness.describe import Plain, class_names, describe, normalize

ANSWERS_VARIABLE = "COMPAT_ANSWERS"
"""Names the file to which the answers of the cases are appended, one JSON line for each."""
SYSTEM_VARIABLE = "COMPAT_SYSTEM"
"""Names the system under the program: "ray" or "raymesh"."""

TIMED_OUT_STATUS = 97
DEFAULT_TIMEOUT_S = 60.0
MB = 1024 * 1024

DEFAULT_INIT: dict[str, Any] = {
    "num_cpus": 4,
    "include_dashboard": False,
    "log_to_driver": False,
    "object_store_memory": 200 * MB,
}
"""The session that the cases of a file share unless the file defines INIT."""

CaseFunction = Callable[["Record"], None]


@dataclass(frozen=True)
class CaseSpec:
    """How a case wants to be run."""

    name: str
    function: CaseFunction
    own_session: bool
    """The case calls `ray.init` and `ray.shutdown` itself."""
    timeout_s: float


@overload
def case(function: CaseFunction) -> CaseFunction: ...
@overload
def case(
    *, own_session: bool = ..., timeout_s: float = ..., since: tuple[int, int] = ...
) -> Callable[[CaseFunction], CaseFunction]: ...
def case(
    function: CaseFunction | None = None,
    *,
    own_session: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    since: tuple[int, int] = (3, 10),
) -> Any:
    """Mark a function as a case. `since` is the first Python that it makes sense in (a literal)."""

    def mark(marked: CaseFunction) -> CaseFunction:
        spec = CaseSpec(marked.__name__, marked, own_session, timeout_s)
        marked.__compat_case__ = spec  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)


@dataclass
class Record:
    """Collects the observations of one case, in order."""

    entries: list[Plain] = field(default_factory=list)

    def __call__(self, label: str, value: object) -> None:
        """Record a value by type and content."""
        self.entries.append({"label": label, "value": describe(value)})

    def text(self, label: str, text: str) -> None:
        """Record a text without ids, addresses and line numbers."""
        self.entries.append({"label": label, "value": normalize(text)})

    @contextlib.contextmanager
    def raises(self, label: str, *, says: Sequence[str] = ()) -> Iterator[None]:
        """Record which exception the block raises, and which of the words its message has."""
        try:
            yield
        except Exception as error:
            self.error(label, error, says=says)
        else:
            self.entries.append({"label": label, "value": {"raised": None}})

    def error(self, label: str, error: BaseException, *, says: Sequence[str] = ()) -> None:
        """Record an exception by its classes, and which of the words its message has."""
        text = str(error).lower()
        value = {
            "raised": type(error).__name__,
            "classes": class_names(type(error)),
            "says": {word: word.lower() in text for word in says},
        }
        self.entries.append({"label": label, "value": value, "detail": str(error)[-2000:]})

    def better(self, label: str, value: object, *, want: object, why: str) -> None:
        """Record a value in which raymesh is meant to differ from Ray: raymesh has to answer `want`."""
        entry = {"label": label, "value": describe(value), "want": describe(want), "why": why}
        self.entries.append(entry)

    def capture(self) -> Capture:
        """Divert what is printed from here on; see `Capture`."""
        return Capture()


def main(module: dict[str, Any]) -> None:
    """Run the cases of a file, all or those named on the command line."""
    if module["__name__"] != "__main__":
        return
    import ray

    wanted = sys.argv[1:]
    specs = [
        value.__compat_case__ for value in module.values() if hasattr(value, "__compat_case__")
    ]
    chosen = [spec for spec in specs if not wanted or spec.name in wanted]
    shared = [spec for spec in chosen if not spec.own_session]
    if shared:
        ray.init(**module.get("INIT", DEFAULT_INIT))
        for spec in shared:
            _run_one(spec)
        ray.shutdown()
    for spec in chosen:
        if spec.own_session:
            _run_one(spec)


def raised(function: Callable[[], object]) -> str | None:
    """The name of the class of what a call raises, None if it returns."""
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return None


def _run_one(spec: CaseSpec) -> None:
    record = Record()
    watchdog = threading.Timer(spec.timeout_s, _give_up, args=(spec, record))
    watchdog.daemon = True
    watchdog.start()
    failure = None
    try:
        spec.function(record)
    except BaseException:
        failure = traceback.format_exc()
    finally:
        watchdog.cancel()
    _answer(spec, record, failure)


def _give_up(spec: CaseSpec, record: Record) -> None:
    with tempfile.TemporaryFile(mode="w+") as stacks:
        faulthandler.dump_traceback(stacks)
        stacks.seek(0)
        failure = f"no end after {spec.timeout_s:g} s\n{stacks.read()}"
    _answer(spec, record, failure)
    os._exit(TIMED_OUT_STATUS)


def _answer(spec: CaseSpec, record: Record, failure: str | None) -> None:
    answer = {"case": spec.name, "entries": record.entries, "failure": failure}
    path = os.environ.get(ANSWERS_VARIABLE)
    if path is None:
        print(json.dumps(answer, indent=1), flush=True)
        return
    with open(path, "a", encoding="utf-8") as answers:
        answers.write(json.dumps(answer) + "\n")
