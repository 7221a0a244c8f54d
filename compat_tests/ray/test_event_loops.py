"""References where `asyncio.wait` takes futures, which Ray's are not."""

from __future__ import annotations

import asyncio
import gc
import weakref
from types import ModuleType
from typing import Any

import pytest


def gate_and_double(ray: ModuleType) -> tuple[Any, Any]:
    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self) -> None:
            self.open = asyncio.Event()

        async def passed(self, value: Any) -> Any:
            await self.open.wait()
            return value

        async def let_pass(self) -> None:
            self.open.set()

    @ray.remote(num_cpus=0, max_retries=0)
    def double(n: Any) -> Any:
        return 2 * n

    return Gate.remote(), double


def test_wait_sorts_references_into_done_and_pending(raymesh_session: ModuleType) -> None:
    gate, double = gate_and_double(raymesh_session)

    async def program() -> None:
        early, late = double.remote(1), gate.passed.remote("late")
        done, pending = await asyncio.wait([early, late], return_when=asyncio.FIRST_COMPLETED)
        assert pending, "it did not wait for all"
        if isinstance(next(iter(pending)), asyncio.Task):  # Python 3.10 makes tasks of awaitables
            assert [task.result() for task in done] == [2]
        else:
            assert (done, pending) == ({early}, {late})
            assert early.result() == 2
        await gate.let_pass.remote()
        done, pending = await asyncio.wait(pending)
        assert [each.result() for each in done] == ["late"]
        assert not pending

    asyncio.run(program())


def test_wait_for_the_first_exception(raymesh_session: ModuleType) -> None:
    gate, double = gate_and_double(raymesh_session)

    async def program() -> None:
        late, fails = gate.passed.remote("late"), double.remote(None)
        fine = double.remote(1)
        done, pending = await asyncio.wait(
            [late, fails, fine], return_when=asyncio.FIRST_EXCEPTION, timeout=60
        )
        raised = [each.exception() for each in done if each.exception()]
        assert [isinstance(error, TypeError) for error in raised] == [True]
        assert len(pending) in (1, 2)
        for each in pending:
            if isinstance(each, asyncio.Task):
                each.cancel()

    asyncio.run(program())


def test_waiting_again_and_again_piles_nothing_up(raymesh_session: ModuleType) -> None:
    """A loop of waits with a timeout is how programs poll: each adds its callback to what is pending."""
    from raymesh import _aio

    gate, _ = gate_and_double(raymesh_session)

    async def program() -> None:
        late = gate.passed.remote("late")

        def callback(_: Any) -> None:
            raise AssertionError("was removed")

        for _ in range(50):
            late.add_done_callback(callback)
            assert late.remove_done_callback(callback) == 1
        bridge = _aio._LoopBridge.of_running_loop()
        assert len(bridge.waiting) == len(bridge.watched) == 1
        assert late.remove_done_callback(callback) == 0
        await gate.let_pass.remote()
        assert await late == "late"
        await asyncio.sleep(0)
        assert not bridge.watched
        assert not bridge.waiting

    asyncio.run(program())


def test_callbacks_run_in_their_loop_with_their_context(raymesh_session: ModuleType) -> None:
    import contextvars

    gate, _ = gate_and_double(raymesh_session)
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def program() -> None:
        seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        late = gate.passed.remote("late")
        variable.set("of the caller")
        late.add_done_callback(lambda ref: seen.set_result((ref, variable.get())))
        variable.set("changed")
        await gate.let_pass.remote()
        ref, value = await asyncio.wait_for(seen, 60)
        assert ref is late
        assert value == "of the caller"

    asyncio.run(program())


def test_result_of_what_is_not_ready_says_what_to_do(raymesh_session: ModuleType) -> None:
    gate, _ = gate_and_double(raymesh_session)
    late = gate.passed.remote("late")
    for ask in (late.result, late.exception):
        with pytest.raises(asyncio.InvalidStateError, match="await it, or call"):
            ask()
    with pytest.raises(RuntimeError, match=r"ref\.future\(\)"):
        late.add_done_callback(print)
    assert not late.done()
    raymesh_session.get(gate.let_pass.remote())
    assert raymesh_session.get(late) == late.result() == "late"
    assert late.done()
    assert late.exception() is None


def test_end_of_the_session_ends_waits(raymesh_session: ModuleType) -> None:
    gate, _ = gate_and_double(raymesh_session)

    async def program() -> None:
        late = gate.passed.remote("late")
        waiting = asyncio.ensure_future(asyncio.wait([late]))
        awaiting = asyncio.ensure_future(late)
        await asyncio.sleep(0)
        raymesh_session.shutdown()
        done, _ = await asyncio.wait_for(waiting, 60)
        [each] = done
        assert isinstance(each.exception(), RuntimeError)
        with pytest.raises(RuntimeError, match="shut down"):
            await asyncio.wait_for(awaiting, 60)
        with pytest.raises(RuntimeError, match="shut down"):
            await late
        assert not raymesh_session.is_initialized(), "nobody asked for another session"

    asyncio.run(program())


def test_reference_of_an_ended_session_is_not_taken_for_one_of_the_next(
    raymesh_session: ModuleType,
) -> None:
    """Ids begin anew in each session."""
    gate, _ = gate_and_double(raymesh_session)
    old = gate.passed.remote("late")
    raymesh_session.shutdown()
    raymesh_session.init(num_cpus=1, log_to_driver=False)

    async def program() -> Any:
        return await asyncio.wait_for(old, 60)

    with pytest.raises(ValueError, match="before shutdown"):
        asyncio.run(program())


def test_closed_loop_with_pending_waits_is_collected(raymesh_session: ModuleType) -> None:
    gate, _ = gate_and_double(raymesh_session)

    async def program() -> None:
        await asyncio.wait([gate.passed.remote(1)], timeout=0.01)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(program())
    loop.close()
    alive = weakref.ref(loop)
    del loop
    gc.collect()
    assert alive() is None
