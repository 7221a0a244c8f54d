"""torch CPU tensors as buffers: their memory goes beside the pickle, not through it."""

from __future__ import annotations

import pickle
from typing import Any

from raymesh import _native

_MAP_FROM = 64 << 10
"""Bytes from which a mapping is cheaper than a copy."""


def reduce(tensor: Any) -> Any:
    """How a plain, dense CPU tensor is pickled; NotImplemented for all others."""
    import torch

    if (
        type(tensor) is not torch.Tensor
        or tensor.layout is not torch.strided
        or tensor.device.type != "cpu"
        or tensor.requires_grad
        or tensor.is_nested
        or tensor.is_conj()
        or tensor.is_neg()
        or tensor.is_quantized
        or tensor.__dict__
        or not tensor.numel()
    ):
        return NotImplemented
    # In the order of memory, so that the strides (channels last, transposed) arrive as they were.
    order = sorted(range(tensor.dim()), key=lambda axis: (-tensor.stride(axis), axis))
    ordered = tensor.permute(order)
    if not ordered.is_contiguous():
        return NotImplemented
    flat = ordered.detach().reshape(-1).view(torch.uint8).numpy()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return _restore, (pickle.PickleBuffer(flat), dtype, tuple(ordered.shape), tuple(order))


def _restore(buffer: Any, dtype: str, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """A tensor that may be written. Of a large one only the pages that are written are copied."""
    import torch

    if isinstance(buffer, _native.View) and len(buffer) >= _MAP_FROM:
        memory: Any = buffer.private()
    else:
        memory = bytearray(buffer)
    flat = torch.frombuffer(memory, dtype=getattr(torch, dtype))
    axes = sorted(range(len(order)), key=order.__getitem__)
    return flat.reshape(shape).permute(axes)
