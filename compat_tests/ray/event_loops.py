"""References in event loops: await, gather, wait, wait_for, as_completed."""

import asyncio

import ray

from compat_tests.harness.case import Record, case, main

WAIT = "asyncio.wait takes references as it takes futures (Ray: not since Python 3.11)"


@ray.remote(num_cpus=0)
class Gate:
    """Answers when it is opened."""

    def __init__(self):
        self.open = asyncio.Event()

    async def passed(self, value):
        await self.open.wait()
        return value

    async def let_pass(self):
        self.open.set()


@ray.remote
def double(n):
    return 2 * n


@ray.remote(max_retries=0)
def fail():
    raise KeyError("missing")


async def outcome(awaitable):
    """What awaiting gives: the value, or the name of the exception's class."""
    try:
        return await awaitable
    except Exception as error:
        return type(error).__name__


@case
def awaiting(record: Record) -> None:
    async def program():
        ref = double.remote(1)
        record("value", await ref)
        record("again", await ref)
        record("put", await ray.put("here"))
        record("error", await outcome(fail.remote()))

    asyncio.run(program())


@case
def gathering(record: Record) -> None:
    async def program():
        refs = [double.remote(n) for n in range(5)]
        record("values", await asyncio.gather(*refs))
        record("with a coroutine", await asyncio.gather(refs[0], asyncio.sleep(0, "slept")))
        mixed = await asyncio.gather(double.remote(1), fail.remote(), return_exceptions=True)
        record("exceptions", [type(item).__name__ for item in mixed])
        record("raises", await outcome(asyncio.gather(double.remote(1), fail.remote())))

    asyncio.run(program())


@case
def waiting_for_one(record: Record) -> None:
    async def program():
        gate = Gate.remote()
        ref = gate.passed.remote("through")
        record("too early", await outcome(asyncio.wait_for(ref, 0.05)))
        await gate.let_pass.remote()
        record("in time", await asyncio.wait_for(ref, 30))
        record("shielded", await asyncio.shield(double.remote(2)))
        record("failed", await outcome(asyncio.wait_for(fail.remote(), 30)))

    asyncio.run(program())


@case
def as_they_complete(record: Record) -> None:
    async def program():
        refs = [double.remote(n) for n in range(4)]
        record("values", sorted([await each for each in asyncio.as_completed(refs)]))
        late = Gate.remote().passed.remote(0)
        first, second = asyncio.as_completed([late, double.remote(8)], timeout=5)
        record("first", await first)
        record("late", await outcome(second))

    asyncio.run(program())


@case
def as_tasks(record: Record) -> None:
    async def program():
        task = asyncio.ensure_future(double.remote(4))
        record("ensure_future", await task)
        done, pending = await asyncio.wait([asyncio.ensure_future(double.remote(5))])
        record("wait for tasks", [[task.result() for task in done], len(pending)])
        record("wrap_future", await asyncio.wrap_future(double.remote(6).future()))
        record(
            "a coroutine?", [asyncio.iscoroutine(double.remote(7)), asyncio.isfuture(ray.put(1))]
        )

    asyncio.run(program())
    loop = asyncio.new_event_loop()
    record("run_until_complete", loop.run_until_complete(double.remote(8)))
    loop.close()


@case
def no_coroutine(record: Record) -> None:
    async def create_task():
        await asyncio.create_task(double.remote(1))

    with record.raises("create_task"):
        asyncio.run(create_task())
    with record.raises("run_coroutine_threadsafe"):
        asyncio.run_coroutine_threadsafe(double.remote(1), asyncio.new_event_loop())


@case
def cancelled_while_awaited(record: Record) -> None:
    async def program():
        gate = Gate.remote()
        ref = gate.passed.remote("still there")
        waiter = asyncio.ensure_future(ref)
        await asyncio.sleep(0)
        waiter.cancel()
        try:
            await waiter
        except asyncio.CancelledError:
            record("waiter", "cancelled")
        await gate.let_pass.remote()
        record("the task goes on", await ref)

    asyncio.run(program())


@case
def waiting_for_any(record: Record) -> None:
    async def program():
        gate = Gate.remote()
        early, late = double.remote(3), gate.passed.remote("late")
        try:
            done, pending = await asyncio.wait(
                [early, late], return_when=asyncio.FIRST_COMPLETED, timeout=30
            )
            found = [sorted([await each for each in done]), len(pending)]
        except Exception as error:
            found = type(error).__name__
        record.better("first", found, want=[[6], 1], why=WAIT)
        await gate.let_pass.remote()
        record("late", await late)

    asyncio.run(program())


main(globals())
