"""The smallest Ray program: how long from nothing to the first task's result."""

import json
import os
import time

import ray

IMPORTED = time.perf_counter()


@ray.remote
def first():
    return 1


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    assert ray.get(first.remote()) == 1
    done = time.perf_counter()
    with open(os.environ["BENCH_ANSWERS"], "a", encoding="utf-8") as answers:
        # The clock is the machine's: the parent read it just before it started this process.
        begin = float(os.environ["BENCH_BEGIN"])
        values = {
            "process start until imported": [IMPORTED - begin],
            "init to first result": [done - IMPORTED],
            "process start to first result": [done - begin],
        }
        answers.write(json.dumps({"body": "start", "values": values}) + "\n")
    ray.shutdown()
