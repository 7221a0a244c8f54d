"""Runs bodies, named on the command line, on the system that this program was started on."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import traceback

import ray

from compat_tests.bench import calls, life, objects
from compat_tests.bench.bodies import BODIES
from compat_tests.bench.meter import FULL, QUICK, Meter

ANSWERS_VARIABLE = "BENCH_ANSWERS"
QUICK_VARIABLE = "BENCH_QUICK"
BODY_TIMEOUT_S = 240.0
MODULES = (calls, life, objects)
"""Imported for the bodies they register."""


def answer(key: str, meter: Meter, failure: str | None) -> None:
    """Hand the values of a body to the process that started this program."""
    line = {"body": key, "values": meter.values, "curves": meter.curves, "failure": failure}
    with open(os.environ[ANSWERS_VARIABLE], "a", encoding="utf-8") as answers:
        answers.write(json.dumps(line) + "\n")


def _give_up(key: str, meter: Meter) -> None:
    answer(key, meter, f"no end after {BODY_TIMEOUT_S:g} s")
    os._exit(97)


def run(key: str) -> None:
    """Measure one body."""
    meter = Meter(QUICK if os.environ.get(QUICK_VARIABLE) else FULL)
    watchdog = threading.Timer(BODY_TIMEOUT_S, _give_up, args=(key, meter))
    watchdog.daemon = True
    watchdog.start()
    failure = None
    try:
        BODIES[key](meter, key)
    except Exception:
        failure = traceback.format_exc()
    watchdog.cancel()
    gc.collect()
    answer(key, meter, failure)


def main() -> None:
    """Measure the bodies in one session."""
    ray.init(include_dashboard=False, log_to_driver=False)
    for key in sys.argv[1:]:
        run(key)
    ray.shutdown()


if __name__ == "__main__":
    main()
