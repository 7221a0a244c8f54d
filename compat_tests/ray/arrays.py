"""Arrays and tensors: zero-copy reads, read-only views, large objects."""

from __future__ import annotations

import numpy as np
import ray

from compat_tests.harness.case import Record, case, main, raised


@ray.remote
def identity(value):
    return value


@ray.remote
def flags(array):
    return bool(array.flags.writeable), str(array.dtype), array.shape


@case
def large_array_is_read_only(record: Record) -> None:
    array = np.arange(200_000, dtype=np.float64)
    seen = ray.get(ray.put(array))
    record("content", seen)
    with record.raises("write", says=["read-only"]):
        seen[0] = 1.0
    record("the original stays writeable", bool(array.flags.writeable))


@case
def two_reads_share_memory(record: Record) -> None:
    ref = ray.put(np.zeros(200_000))
    first, second = ray.get(ref), ray.get(ref)
    record("shared", np.shares_memory(first, second))


@case
def array_outlives_its_reference(record: Record) -> None:
    seen = ray.get(ray.put(np.arange(300_000)))
    filler = [ray.put(np.full(300_000, n)) for n in range(5)]
    record("sum", int(seen.sum()))
    record("fillers", [int(ray.get(ref)[0]) for ref in filler])


@case
def later_change_of_the_original_is_not_seen(record: Record) -> None:
    array = np.zeros(200_000)
    ref = ray.put(array)
    array[:] = 1
    record("sum", float(ray.get(ref).sum()))


@case
def array_arguments_are_read_only_in_tasks(record: Record) -> None:
    large = np.zeros(200_000)
    record("large by value", ray.get(flags.remote(large)))
    record("large by reference", ray.get(flags.remote(ray.put(large))))


@case
def small_array(record: Record) -> None:
    small = np.arange(10)
    record("argument", ray.get(flags.remote(small)))
    record("put", ray.get(ray.put(small)))
    record("result", ray.get(identity.remote(small)))


@case
def dtypes_and_shapes(record: Record) -> None:
    arrays = [
        np.zeros((0, 3)),
        np.float32(1.5),
        np.array(7),
        np.arange(24).reshape(2, 3, 4),
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        np.arange(20)[::2],
        np.array(["a", "bc"]),
        np.array([1, "x", None], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2024-01-01"], dtype="datetime64[D]"),
        np.array([1 + 2j]),
        np.array([True, False]),
    ]
    for number, array in enumerate(arrays):
        back = ray.get(identity.remote(array))
        record(f"dtype {number}", [str(back.dtype), list(back.shape), type(back).__name__])
        record(f"equal {number}", back.tolist() == array.tolist())


@case
def order_of_large_arrays(record: Record) -> None:
    fortran = np.asfortranarray(np.arange(200_000.0).reshape(400, 500))
    back = ray.get(identity.remote(fortran))
    record("fortran", bool(back.flags.f_contiguous))
    strided = np.arange(400_000.0)[::2]
    record("strided", ray.get(identity.remote(strided)))


@case
def several_arrays_in_one_value(record: Record) -> None:
    value = {"a": np.arange(100_000), "b": [np.ones(50_000), "text"], "c": np.zeros(3)}
    back = ray.get(ray.put(value))
    record("value", back)


@case
def array_of_many_tasks(record: Record) -> None:
    shared = ray.put(np.arange(500_000))

    @ray.remote
    def part(array, n):
        return int(array[n::4].sum())

    record("sum", sum(ray.get([part.remote(shared, n) for n in range(4)])))


@case
def result_array_from_an_actor(record: Record) -> None:
    @ray.remote
    class Model:
        def __init__(self):
            self.weights = np.zeros(150_000)

        def step(self, gradient):
            self.weights += gradient
            return self.weights

    model = Model.remote()
    first = ray.get(model.step.remote(np.ones(150_000)))
    second = ray.get(model.step.remote(ray.put(np.ones(150_000))))
    record("first is a snapshot", float(first.sum()))
    record("second", float(second.sum()))


@case
def bytes_like_objects(record: Record) -> None:
    record("bytes", ray.get(identity.remote(b"x" * 300_000)))
    record("bytearray", bytes(ray.get(identity.remote(bytearray(b"y" * 300_000)))))
    record("memoryview", bytes(ray.get(identity.remote(memoryview(b"abc")))))


@case
def pickle_buffers_of_own_classes(record: Record) -> None:
    class Wrapped:
        def __init__(self, array):
            self.array = array

    back = ray.get(ray.put(Wrapped(np.arange(100_000))))
    record("array", back.array)


@case
def torch_tensors(record: Record) -> None:
    import torch

    tensor = torch.arange(200_000, dtype=torch.float32)
    record("put", ray.get(ray.put(tensor)))
    record("task", ray.get(identity.remote(tensor)))
    record("small", ray.get(identity.remote(torch.tensor([1, 2, 3]))))
    parameter = ray.get(identity.remote(torch.nn.Parameter(torch.ones(3))))
    record("parameter", [type(parameter).__name__, parameter.requires_grad])
    bf16 = ray.get(identity.remote(torch.ones(4, dtype=torch.bfloat16)))
    record("bfloat16", [str(bf16.dtype), float(bf16.sum())])


@case
def object_larger_than_the_store(record: Record) -> None:
    too_large = np.zeros(400_000_000, dtype=np.uint8)
    record.better(
        "too large",
        raised(lambda: ray.put(too_large)),
        want="ObjectStoreFullError",
        why="Ray writes it to a file behind the user's back; until raymesh spills, it says so",
    )
    record("afterwards", ray.get(ray.put(np.ones(1000))).sum().item())


@case
def memory_goes_back(record: Record) -> None:
    for n in range(20):
        ref = ray.put(np.full(5_000_000, n, dtype=np.float64))
        last = float(ray.get(ref)[-1])
        del ref
    record("last", last)


main(globals())
