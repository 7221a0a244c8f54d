"""Waits that cannot end say so, with the names of those that wait."""

from __future__ import annotations

import re
from types import ModuleType

import pytest


def timeout_text(ray: ModuleType, ref: object, timeout_s: float = 1.5) -> str:
    with pytest.raises(ray.exceptions.GetTimeoutError) as caught:
        ray.get(ref, timeout=timeout_s)
    return str(caught.value)


def test_task_that_no_node_can_run_is_named(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=1000)
    def impossible() -> None: ...

    text = timeout_text(ray, impossible.remote())
    assert "impossible" in text
    assert "CPU" in text
    assert "1000" in text


def test_unknown_resource_is_named(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(resources={"unobtainium": 1})
    def needs_it() -> None: ...

    assert "unobtainium" in timeout_text(ray, needs_it.remote())


def test_actors_that_hold_all_cpus_are_named(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=1)
    class Hoarder:
        def ok(self) -> None: ...

    hoarders = [Hoarder.remote() for _ in range(2)]
    ray.get([hoarder.ok.remote() for hoarder in hoarders])

    @ray.remote
    def starves() -> None: ...

    text = timeout_text(ray, starves.remote())
    assert "Hoarder" in text
    # A host without a name leaves no hole where the name would be.
    assert re.search(r"of \{CPU: \d+\}; held by", text), text


def test_actor_that_waits_for_itself_gets_an_error(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    class Narcissus:
        def me(self, handle):
            return ray.get(handle[0].other.remote())

        def other(self) -> int:
            return 1

    actor = Narcissus.remote()
    with pytest.raises(ray.exceptions.RayError) as caught:
        ray.get(actor.me.remote([actor]), timeout=20)
    assert not isinstance(caught.value, ray.exceptions.GetTimeoutError)
    assert "Narcissus" in str(caught.value)


def test_two_actors_that_wait_for_each_other_get_an_error(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Ping:
        def meet(self, other):
            self.other = other

        def call(self, depth: int):
            return ray.get(self.other.call.remote(depth + 1))

    first, second = Ping.remote(), Ping.remote()
    ray.get([first.meet.remote(second), second.meet.remote(first)])
    with pytest.raises(ray.exceptions.RayError) as caught:
        ray.get(first.call.remote(0), timeout=20)
    assert not isinstance(caught.value, ray.exceptions.GetTimeoutError)
    assert "Ping" in str(caught.value)


def test_timeout_of_a_running_task_names_it(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Gate:
        async def never(self) -> None:
            import asyncio

            await asyncio.Event().wait()

    assert "never" in timeout_text(ray, Gate.remote().never.remote(), 0.2)
