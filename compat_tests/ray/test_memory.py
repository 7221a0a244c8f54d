"""Memory goes back when its last holder is gone, and a full store says so."""

from __future__ import annotations

import gc
import os
from types import ModuleType

import pytest

np = pytest.importorskip("numpy")

MB = 1024 * 1024
PART = 20 * MB
"""A fifth of the session's store."""


def part() -> object:
    return np.ones(PART, dtype=np.uint8)


def fill_again(ray: ModuleType, times: int = 12) -> None:
    """Puts more than the store holds, one part at a time."""
    for _ in range(times):
        ref = ray.put(part())
        del ref


def test_put_and_drop_never_fills_the_store(raymesh_session: ModuleType) -> None:
    fill_again(raymesh_session)


def test_full_store_names_sizes_and_what_to_do(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    kept = []
    with pytest.raises(ray.exceptions.ObjectStoreFullError) as caught:
        for _ in range(10):
            kept.append(ray.put(part()))
    assert len(kept) >= 3
    text = str(caught.value)
    assert "hint" in text.lower()
    assert any(character.isdigit() for character in text)
    kept.clear()
    fill_again(ray)


def test_full_store_in_a_task_is_an_error_of_the_task(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def too_much():
        return np.ones(200 * MB, dtype=np.uint8)

    with pytest.raises(ray.exceptions.ObjectStoreFullError):
        ray.get(too_much.remote())
    fill_again(ray, 3)


def test_results_of_tasks_go_back(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def make():
        return part()

    for _ in range(12):
        assert ray.get(make.remote()).nbytes == PART


def test_array_keeps_its_memory_after_the_reference_is_gone(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    array = ray.get(ray.put(np.arange(PART // 8)))
    fill_again(ray)
    assert int(array[-1]) == PART // 8 - 1


def test_arguments_of_finished_tasks_go_back(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def size(array) -> int:
        return int(array.nbytes)

    for _ in range(12):
        assert ray.get(size.remote(part())) == PART


def test_references_borrowed_by_an_actor_hold_and_release(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    class Holder:
        def hold(self, refs):
            self.refs = refs

        def last(self) -> int:
            return int(ray.get(self.refs[0])[-1])

        def release(self) -> None:
            self.refs = None
            gc.collect()

    holder = Holder.remote()
    ref = ray.put(part())
    ray.get(holder.hold.remote([ref]))
    del ref
    fill_again(ray)
    assert ray.get(holder.last.remote()) == 1
    ray.get(holder.release.remote())
    kept = [ray.put(part()) for _ in range(4)]
    assert len(kept) == 4


def test_failed_task_keeps_its_arguments_no_longer_than_the_error(
    raymesh_session: ModuleType,
) -> None:
    ray = raymesh_session

    @ray.remote
    def fail(array) -> None:
        raise ValueError("with a large local")

    for _ in range(12):
        with pytest.raises(ValueError, match="large local"):
            ray.get(fail.remote(part()))


def test_objects_nested_in_objects_go_back(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    for _ in range(8):
        outer = ray.put([ray.put(part())])
        assert ray.get(ray.get(outer)[0]).nbytes == PART
        del outer


def test_many_small_references_leave_no_descriptor_open(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    ray.get(ray.put(part()))
    before = len(os.listdir("/proc/self/fd"))
    refs = [ray.put(n) for n in range(20_000)]
    assert ray.get(refs[-1]) == 19_999
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_reader_cannot_change_a_shared_array(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    ref = ray.put(part())
    array = ray.get(ref)
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
    assert int(ray.get(ref).sum()) == PART
