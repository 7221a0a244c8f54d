"""Tensors that are no plain, dense ones arrive as they were too."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

# torch calls several of these prototypes.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def nested(layout: Any, length: int) -> Any:
    parts = [torch.arange(3.0), torch.arange(float(length))]
    return torch.nested.nested_tensor(parts, layout=layout)


KINDS: dict[str, Callable[[], Any]] = {
    "nested": lambda: nested(torch.strided, 5),
    "nested, large": lambda: nested(torch.strided, 100_000),
    "jagged": lambda: nested(torch.jagged, 5),
    "jagged, large": lambda: nested(torch.jagged, 100_000),
    "sparse": lambda: torch.eye(300).to_sparse(),
    "compressed": lambda: torch.eye(300).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.rand(9), 0.1, 0, torch.qint8),
    "of no memory": lambda: torch.empty(3, 4, device="meta"),
    "conjugated": lambda: torch.randn(5, dtype=torch.complex64).conj(),
    "parameter": lambda: torch.nn.Parameter(torch.rand(4)),
    "empty": lambda: torch.zeros(0, 3),
    "expanded": lambda: torch.rand(1).expand(100_000),
}


def same(one: Any, other: Any) -> bool:
    described = [
        (type(it), it.layout, it.dtype, it.device, it.requires_grad) for it in (one, other)
    ]
    if described[0] != described[1]:
        return False
    if one.is_nested:
        pairs = zip(one.unbind(), other.unbind(), strict=True)
        return all(torch.equal(*pair) for pair in pairs)
    if one.device.type == "meta":
        return bool(one.shape == other.shape)
    return bool(torch.equal(one.to_dense(), other.to_dense()))


def test_every_kind_of_tensor_arrives_as_it_was(raymesh_session: ModuleType) -> None:
    torch.set_num_threads(1)  # its threads would outlive the test
    ray = raymesh_session
    wrap = ray.remote(lambda tensor: [tensor])
    tensors = {kind: make() for kind, make in KINDS.items()}
    by_put = {kind: ray.get(ray.put(tensor)) for kind, tensor in tensors.items()}
    by_task = {kind: ray.get(wrap.remote(tensor))[0] for kind, tensor in tensors.items()}
    for got in (by_put, by_task):
        assert [kind for kind in KINDS if not same(got[kind], tensors[kind])] == []
