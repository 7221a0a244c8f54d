"""Runs bodies, named on the command line, on the system that this program was started on."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import threading
import time
import traceback

import ray

from compat_tests.bench import pace
from compat_tests.bench.bodies import BODIES
from compat_tests.bench.catalog import HOSTS, ROWS, limit_of
from compat_tests.bench.meter import Meter

ANSWERS_VARIABLE = "BENCH_ANSWERS"
DEADLINE_VARIABLE = "BENCH_DEADLINE"
STORE_VARIABLE = "BENCH_STORE"
"""Bytes of the object store: the same for both systems."""
PLAIN = ("calls", "crowd", "life", "objects")
WITH_TORCH = "tensors"
OF_HOSTS = ("hosts", "deaths")
"""Make sessions of their own."""


def answer(key: str, meter: Meter, failure: str | None) -> None:
    """Hand the values of a body to the process that started this program."""
    line = {
        "body": key,
        "values": meter.values,
        "curves": meter.curves,
        "notes": meter.notes,
        "failure": failure,
    }
    with open(os.environ[ANSWERS_VARIABLE], "a", encoding="utf-8") as answers:
        answers.write(json.dumps(line) + "\n")


def _give_up(key: str, meter: Meter) -> None:
    answer(key, meter, f"no end after {limit_of(key):g} s")
    os._exit(97)


def run(key: str) -> None:
    """Measure one body."""
    meter = Meter(pace.current())
    if time.perf_counter() > float(os.environ[DEADLINE_VARIABLE]):
        answer(key, meter, meter.pace.out_of_time)
        return
    watchdog = threading.Timer(limit_of(key), _give_up, args=(key, meter))
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


def main(keys: list[str]) -> None:
    """Measure the bodies in one session."""
    if any(row.key in keys for row in ROWS if row.group == HOSTS):
        for name in OF_HOSTS:
            importlib.import_module(f"compat_tests.bench.{name}")
        for key in keys:
            run(key)
        importlib.import_module("compat_tests.bench.hosts").end_cluster()
        return
    for name in PLAIN:
        importlib.import_module(f"compat_tests.bench.{name}")
    if any(key not in BODIES for key in keys):
        importlib.import_module(f"compat_tests.bench.{WITH_TORCH}")
    ray.init(
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=int(os.environ[STORE_VARIABLE]),
    )
    # The rows are about a session at work: on both systems, workers that start would still have the cores.
    time.sleep(pace.SETTLE_S)
    for key in keys:
        run(key)
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
