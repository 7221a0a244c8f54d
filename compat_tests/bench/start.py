"""The smallest Ray program: how long from nothing to the first task's result."""

import json
import os
import subprocess
import sys
import time

import ray

from compat_tests.harness.case import SYSTEM_VARIABLE

IMPORTED = time.perf_counter()


ROUNDS = 3


def beyond_an_empty_interpreter() -> float:
    """How much longer an interpreter takes that imports the system and ends: the best of some."""

    def best(code: str) -> float:
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - begin)
        return min(times)

    return best(f"import {os.environ[SYSTEM_VARIABLE]}") - best("pass")


@ray.remote
def first():
    return 1


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    assert ray.get(first.remote()) == 1
    done = time.perf_counter()
    ray.shutdown()
    with open(os.environ["BENCH_ANSWERS"], "a", encoding="utf-8") as answers:
        # The clock is the machine's: the parent read it just before it started this process.
        begin = float(os.environ["BENCH_BEGIN"])
        values = {
            "import beyond an empty interpreter": [beyond_an_empty_interpreter()],
            "process start until imported": [IMPORTED - begin],
            "init to first result": [done - IMPORTED],
            "process start to first result": [done - begin],
        }
        answers.write(json.dumps({"body": "start", "values": values}) + "\n")
