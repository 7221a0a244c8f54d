"""The smallest Ray program: how long from nothing to the first task's result."""

import time

BEGIN = time.perf_counter()

import json  # noqa: E402
import os  # noqa: E402

import ray  # noqa: E402

IMPORTED = time.perf_counter()


@ray.remote
def first():
    return 1


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    assert ray.get(first.remote()) == 1
    done = time.perf_counter()
    with open(os.environ["BENCH_ANSWERS"], "a", encoding="utf-8") as answers:
        values = {
            "import": [IMPORTED - BEGIN],
            "init to first result": [done - IMPORTED],
        }
        answers.write(json.dumps({"body": "start", "values": values}) + "\n")
    ray.shutdown()
