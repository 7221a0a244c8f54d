"""What trying to break raymesh has found; each test is one fault that was there."""

from __future__ import annotations

import abc
import threading
from types import ModuleType

import numpy as np
import pytest


def test_async_actors_end_with_their_handles(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=1)
    class Async:
        async def answer(self) -> int:
            return 1

    # More than there are CPUs: each needs what the one before held.
    for _ in range(6):
        actor = Async.remote()
        assert ray.get(actor.answer.remote(), timeout=20) == 1
        del actor


def test_reference_that_is_made_while_pickling_is_kept(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    class Lazy:
        def __reduce__(self):
            return ray.get, (ray.put([1, 2]),)

    assert ray.get(ray.put(Lazy()), timeout=20) == [1, 2]
    assert ray.get(ray.remote(lambda value: value).remote(Lazy()), timeout=20) == [1, 2]
    assert ray.get(ray.remote(lambda: Lazy()).remote(), timeout=20) == [1, 2]


def test_argument_may_be_named_self(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    def named(**arguments):
        return arguments

    assert ray.get(named.remote(self=5)) == {"self": 5}
    assert ray.get(named.options(num_cpus=0).remote(self=6)) == {"self": 6}


def test_bound_method_can_be_an_argument(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote
    class Echo:
        def say(self, value):
            return value

    @ray.remote
    def call(method):
        return ray.get(method.remote(4))

    echo = Echo.remote()
    assert ray.get(call.remote(echo.say)) == 4


def test_abstract_class_is_refused_at_the_call(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    class Base(abc.ABC):
        @abc.abstractmethod
        def work(self) -> None: ...

    with pytest.raises(TypeError, match=r"abstract.*work"):
        ray.remote(Base).remote()


def test_name_that_is_taken_is_refused_from_many_threads(raymesh_session: ModuleType) -> None:
    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Named:
        def ok(self) -> bool:
            return True

    made, refused = [], []

    def create() -> None:
        try:
            made.append(Named.options(name="only").remote())
        except ray.exceptions.ActorAlreadyExistsError as error:
            refused.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 7)
    assert ray.get(made[0].ok.remote())


@pytest.mark.parametrize("end", ["future", "await"])
def test_waits_for_objects_end_with_the_session(raymesh_session: ModuleType, end: str) -> None:
    import asyncio

    ray = raymesh_session

    @ray.remote(num_cpus=0)
    class Gate:
        async def never(self) -> None:
            await asyncio.Event().wait()

    ref = Gate.remote().never.remote()
    errors = []
    waiting = threading.Event()

    async def await_it() -> None:
        waiting.set()
        await ref

    def wait() -> None:
        try:
            if end == "await":
                asyncio.run(await_it())
            else:
                future = ref.future()
                waiting.set()
                future.result(timeout=20)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(20)
    ray.shutdown()
    thread.join(20)
    assert not thread.is_alive()
    assert "shut down" in errors[0]


def test_instance_is_deleted_at_an_orderly_end(raymesh_session: ModuleType, tmp_path) -> None:
    ray = raymesh_session
    path = tmp_path / "deleted"

    @ray.remote(num_cpus=0)
    class Holder:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def __del__(self) -> None:
            path.write_text("yes")

    holder = Holder.remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(holder.leave.remote())
    assert path.read_text() == "yes"


def test_tensors_keep_strides_and_large_ones_are_private(raymesh_session: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)  # its threads would outlive the test
    ray = raymesh_session
    given = [
        torch.rand(2, 3, 64, 64).to(memory_format=torch.channels_last),
        torch.rand(300, 400).t(),
        torch.rand(6, 6)[::2],
        torch.tensor(3.0),
        torch.rand(3).bfloat16(),
        torch.rand(2, 2, requires_grad=True),
    ]
    for tensor in given:
        got = ray.get(ray.put(tensor))
        assert torch.equal(got, tensor)
        assert got.stride() == tensor.stride()
        assert got.requires_grad == tensor.requires_grad
    ref = ray.put(torch.zeros(1_000_000))
    first = ray.get(ref)
    first[0] = 5
    assert ray.get(ref)[0] == 0


def test_large_arrays_arrive_whole(raymesh_session: ModuleType) -> None:
    ray = raymesh_session
    # Copied by two threads from 8 MiB on: sizes around that, and odd ones.
    for size in (8 << 20, (8 << 20) - 1, (8 << 20) + 1, 20_000_003):
        array = np.arange(size, dtype=np.uint8)
        assert np.array_equal(ray.get(ray.put(array)), array)
