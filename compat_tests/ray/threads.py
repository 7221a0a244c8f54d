"""Threads: the API used from many threads of the driver and of a worker."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
def double(n):
    return 2 * n


@ray.remote
class Counter:
    def __init__(self):
        self.value = 0

    def add(self, n):
        self.value += n
        return self.value


@case
def tasks_from_many_threads(record: Record) -> None:
    def work(k):
        return ray.get([double.remote(k * 100 + n) for n in range(20)])

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    record("right", results == [[2 * (k * 100 + n) for n in range(20)] for k in range(8)])


@case
def one_actor_from_many_threads(record: Record) -> None:
    counter = Counter.remote()
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda n: ray.get(counter.add.remote(1)), range(50)))
    record("each value once", sorted(seen) == list(range(1, 51)))


@case
def one_reference_waited_for_by_many_threads(record: Record) -> None:
    ref = double.remote(21)
    with ThreadPoolExecutor(8) as pool:
        record("values", list(pool.map(lambda _: ray.get(ref), range(8))))


@case
def put_and_wait_in_threads(record: Record) -> None:
    def work(n):
        refs = [ray.put((n, k)) for k in range(10)]
        ready, rest = ray.wait(refs, num_returns=10)
        return sorted(ray.get(ready)), len(rest)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    record("right", results == [([(n, k) for k in range(10)], 0) for n in range(4)])


@case
def reference_made_in_a_thread_that_has_ended(record: Record) -> None:
    box = []
    thread = threading.Thread(target=lambda: box.append(double.remote(4)))
    thread.start()
    thread.join()
    record("value", ray.get(box[0]))


@case
def threads_inside_a_task(record: Record) -> None:
    @ray.remote
    def work():
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda n: ray.get(double.remote(n)), range(8)))

    record("values", ray.get(work.remote()))


@case
def threads_inside_an_actor(record: Record) -> None:
    @ray.remote
    class Spawner:
        def __init__(self):
            self.results = []
            self.thread = threading.Thread(target=self.run)
            self.thread.start()

        def run(self):
            self.results = ray.get([double.remote(n) for n in range(5)])

        def finish(self):
            self.thread.join()
            return self.results

    record("values", ray.get(Spawner.remote().finish.remote()))


@case
def submission_goes_on_while_another_thread_blocks(record: Record) -> None:
    @ray.remote(max_concurrency=2)
    class Gate:
        def __init__(self):
            self.opened = threading.Event()

        def passed(self):
            return self.opened.wait(30)

        def open(self):
            self.opened.set()

    gate = Gate.remote()
    held = gate.passed.remote()
    with ThreadPoolExecutor(1) as pool:
        blocked = pool.submit(ray.get, held)
        record("meanwhile", ray.get([double.remote(n) for n in range(5)]))
        ray.get(gate.open.remote())
        record("blocked", blocked.result(timeout=30))


main(globals())
