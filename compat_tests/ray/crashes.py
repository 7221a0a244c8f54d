"""Crashes of workers: WorkerCrashedError, max_retries, retry_exceptions."""

from __future__ import annotations

import os
import signal

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
class Tally:
    def __init__(self):
        self.count = 0

    def next(self):
        self.count += 1
        return self.count

    def read(self):
        return self.count


@ray.remote
def ok():
    return "ok"


@case
def exit_without_retries(record: Record) -> None:
    @ray.remote(max_retries=0)
    def crash():
        os._exit(1)

    with record.raises("crash"):
        ray.get(crash.remote())
    record("goes on", ray.get(ok.remote()))


@case
def killed_by_a_signal(record: Record) -> None:
    @ray.remote(max_retries=0)
    def crash(number):
        os.kill(os.getpid(), number)

    for number in (signal.SIGKILL, signal.SIGSEGV):
        with record.raises(number.name):
            ray.get(crash.remote(number))
    record("goes on", ray.get([ok.remote() for _ in range(4)]))


@case
def crash_is_retried_as_often_as_allowed(record: Record) -> None:
    @ray.remote(max_retries=2)
    def crash(tally):
        ray.get(tally.next.remote())
        os._exit(1)

    tally = Tally.remote()
    with record.raises("crash"):
        ray.get(crash.remote(tally))
    record("attempts", ray.get(tally.read.remote()))


@case
def retry_succeeds(record: Record) -> None:
    @ray.remote(max_retries=3)
    def flaky(tally):
        attempt = ray.get(tally.next.remote())
        if attempt < 3:
            os._exit(1)
        return attempt

    record("attempt", ray.get(flaky.remote(Tally.remote())))


@case
def errors_are_not_retried_by_default(record: Record) -> None:
    @ray.remote(max_retries=3)
    def fail(tally):
        ray.get(tally.next.remote())
        raise ValueError("no retry")

    tally = Tally.remote()
    with record.raises("error"):
        ray.get(fail.remote(tally))
    record("attempts", ray.get(tally.read.remote()))


@case
def retry_exceptions_for_all(record: Record) -> None:
    @ray.remote(max_retries=2, retry_exceptions=True)
    def flaky(tally):
        attempt = ray.get(tally.next.remote())
        if attempt < 3:
            raise ValueError(f"attempt {attempt}")
        return attempt

    record("attempt", ray.get(flaky.remote(Tally.remote())))


@case
def retry_exceptions_for_some_classes(record: Record) -> None:
    @ray.remote(max_retries=5, retry_exceptions=[ValueError])
    def flaky(tally):
        attempt = ray.get(tally.next.remote())
        if attempt == 1:
            raise ValueError("retried")
        raise KeyError("not retried")

    tally = Tally.remote()
    with record.raises("error"):
        ray.get(flaky.remote(tally))
    record("attempts", ray.get(tally.read.remote()))


@case
def retries_run_out(record: Record) -> None:
    @ray.remote(max_retries=2, retry_exceptions=True)
    def fail(tally):
        raise ValueError(f"attempt {ray.get(tally.next.remote())}")

    with record.raises("last error", says=["attempt 3"]):
        ray.get(fail.remote(Tally.remote()))


@case
def crash_of_a_producer_reaches_its_consumer(record: Record) -> None:
    @ray.remote(max_retries=0)
    def crash():
        os._exit(1)

    @ray.remote
    def consume(value):
        return value

    with record.raises("consumer"):
        ray.get(consume.remote(crash.remote()))


@case
def crash_beside_healthy_tasks(record: Record) -> None:
    @ray.remote(max_retries=0)
    def maybe(n):
        if n == 3:
            os._exit(1)
        return n

    refs = [maybe.remote(n) for n in range(6)]
    record("others", ray.get([ref for n, ref in enumerate(refs) if n != 3]))
    with record.raises("crashed"):
        ray.get(refs[3])


@case
def method_retries_on_exceptions(record: Record) -> None:
    @ray.remote(max_task_retries=2)
    class Flaky:
        def __init__(self):
            self.calls = 0

        @ray.method(retry_exceptions=True)
        def work(self):
            self.calls += 1
            if self.calls < 3:
                raise ValueError("again")
            return self.calls

    record("attempt", ray.get(Flaky.remote().work.remote()))


@case
def object_in_the_store_outlives_the_worker_that_put_it(record: Record) -> None:
    @ray.remote
    def make():
        return b"x" * 2_000_000, os.getpid()

    data, pid = ray.get(make.options(num_returns=1).remote())
    record("size", len(data))
    ref = make.remote()
    _, pid = ray.get(ref)
    os.kill(pid, signal.SIGKILL)
    record("still there", len(ray.get(ref)[0]))


main(globals())
