"""An actor that counts, called from the driver and from tasks."""

import ray


@ray.remote
class Counter:
    """Holds a number."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, n: int) -> int:
        """Add to the number and return it."""
        self.value += n
        return self.value


@ray.remote
def add_many(counter, times: int) -> int:
    """Call the actor from a task."""
    return max(ray.get([counter.add.remote(1) for _ in range(times)]))


if __name__ == "__main__":
    ray.init()
    counter = Counter.remote()
    print("one after the other:", ray.get([counter.add.remote(1) for _ in range(5)]))
    ray.get([add_many.remote(counter, 100) for _ in range(4)])
    print("after 400 calls from 4 tasks:", ray.get(counter.add.remote(0)))
