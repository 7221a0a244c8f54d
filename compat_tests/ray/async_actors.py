"""Async and threaded actors: concurrency, order, errors."""

from __future__ import annotations

import asyncio
import threading

import ray

from compat_tests.harness.case import Record, case, main


@ray.remote
class Meeting:
    """`meet` returns when `size` calls are inside at the same time."""

    def __init__(self, size):
        self.size = size
        self.inside = 0
        self.complete = asyncio.Event()

    async def meet(self):
        self.inside += 1
        if self.inside >= self.size:
            self.complete.set()
        await self.complete.wait()
        return self.inside

    async def echo(self, value):
        return value

    def plain(self, value):
        return value, asyncio.get_event_loop().is_running()

    async def fail(self):
        raise ValueError("in a coroutine")

    async def nested(self, ref):
        return await ref[0]

    async def call(self, other, value):
        return await other.echo.remote(value)

    async def loop_and_thread(self):
        return id(asyncio.get_running_loop()), threading.get_ident()


@case
def calls_overlap(record: Record) -> None:
    meeting = Meeting.remote(10)
    record("met", ray.get([meeting.meet.remote() for _ in range(10)]))


@case
def results_and_plain_methods(record: Record) -> None:
    actor = Meeting.remote(1)
    record("async", ray.get([actor.echo.remote(n) for n in range(20)]))
    record("plain method runs on the loop", ray.get(actor.plain.remote(1)))


@case
def error_in_a_coroutine(record: Record) -> None:
    actor = Meeting.remote(1)
    with record.raises("error", says=["in a coroutine"]):
        ray.get(actor.fail.remote())
    record("next", ray.get(actor.echo.remote(1)))


@case
def awaiting_references_and_other_actors(record: Record) -> None:
    actor, other = Meeting.remote(1), Meeting.remote(1)
    record("reference", ray.get(actor.nested.remote([ray.put("inner")])))
    record("other actor", ray.get(actor.call.remote(other, 5)))


@case
def one_loop_for_all_calls(record: Record) -> None:
    actor = Meeting.remote(1)
    seen = ray.get([actor.loop_and_thread.remote() for _ in range(5)])
    record("loops and threads", len(set(seen)))


@case
def max_concurrency_bounds_the_overlap(record: Record) -> None:
    @ray.remote(max_concurrency=2)
    class Bounded:
        def __init__(self):
            self.inside = 0
            self.most = 0

        async def work(self):
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0.01)
            self.inside -= 1

        async def peak(self):
            return self.most

    actor = Bounded.remote()
    ray.get([actor.work.remote() for _ in range(8)])
    record("most", ray.get(actor.peak.remote()))


@case
def one_at_a_time_in_an_async_actor(record: Record) -> None:
    @ray.remote(max_concurrency=1)
    class Serial:
        def __init__(self):
            self.log = []

        async def work(self, n):
            self.log.append(("in", n))
            await asyncio.sleep(0)
            self.log.append(("out", n))

        async def read(self):
            return self.log

    actor = Serial.remote()
    ray.get([actor.work.remote(n) for n in range(3)])
    log = ray.get(actor.read.remote())
    record("each leaves before the next enters", [kind for kind, _ in log])
    record("all", sorted({n for _, n in log}))


@case
def threads_overlap(record: Record) -> None:
    @ray.remote(max_concurrency=3)
    class Threaded:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def meet(self):
            self.barrier.wait(timeout=30)
            return "met"

    actor = Threaded.remote()
    record("all", ray.get([actor.meet.remote() for _ in range(3)]))


@case
def threaded_actor_keeps_answering_while_one_call_blocks(record: Record) -> None:
    @ray.remote(max_concurrency=2)
    class Gate:
        def __init__(self):
            self.opened = threading.Event()

        def passed(self):
            return self.opened.wait(timeout=30)

        def open(self):
            self.opened.set()

    gate = Gate.remote()
    held = gate.passed.remote()
    ray.get(gate.open.remote())
    record("passed", ray.get(held))


@case
def error_in_a_threaded_actor(record: Record) -> None:
    @ray.remote(max_concurrency=4)
    class Threaded:
        def work(self, n):
            if n % 2:
                raise ValueError(str(n))
            return n

    actor = Threaded.remote()
    for n in range(2):
        with record.raises(f"call {n}"):
            record("value", ray.get(actor.work.remote(n)))


@case
def context_variables_of_concurrent_calls(record: Record) -> None:
    @ray.remote
    class Tasks:
        async def task(self):
            before = ray.get_runtime_context().get_task_id()
            await asyncio.sleep(0)
            return before == ray.get_runtime_context().get_task_id(), before

    actor = Tasks.remote()
    answers = ray.get([actor.task.remote() for _ in range(4)])
    record("own id kept", [same for same, _ in answers])
    record("ids differ", len({task_id for _, task_id in answers}))


@case
def async_constructor_work_and_background_task(record: Record) -> None:
    @ray.remote
    class Background:
        def __init__(self):
            self.queue = asyncio.Queue()
            self.task = asyncio.get_event_loop().create_task(self.consume())
            self.seen = []
            self.done = asyncio.Event()

        async def consume(self):
            while True:
                item = await self.queue.get()
                if item is None:
                    self.done.set()
                    return
                self.seen.append(item)

        async def push(self, item):
            await self.queue.put(item)

        async def finish(self):
            await self.queue.put(None)
            await self.done.wait()
            return self.seen

    actor = Background.remote()
    ray.get([actor.push.remote(n) for n in range(3)])
    record("seen", sorted(ray.get(actor.finish.remote())))


@case
def asyncio_gather_in_an_actor(record: Record) -> None:
    @ray.remote
    def square(n):
        return n * n

    @ray.remote
    class Gatherer:
        async def run(self, n):
            return await asyncio.gather(*[square.remote(k) for k in range(n)])

    record("squares", ray.get(Gatherer.remote().run.remote(6)))


main(globals())
