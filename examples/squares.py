"""A task for each item of a list; results are taken as they come."""

import ray


@ray.remote
def square(n: int) -> int:
    """The work."""
    return n * n


if __name__ == "__main__":
    ray.init()
    pending = [square.remote(n) for n in range(100)]
    total = 0
    while pending:
        ready, pending = ray.wait(pending, num_returns=min(10, len(pending)))
        total += sum(ray.get(ready))
    print("sum of the squares:", total)
