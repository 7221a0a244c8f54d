"""torch CPU tensors as buffers: their memory goes beside the pickle, not through it."""

from __future__ import annotations

from typing import Any


def reduce(tensor: Any) -> Any:
    """How a plain, dense CPU tensor is pickled; NotImplemented for all others."""
    import torch

    if (
        type(tensor) is not torch.Tensor
        or tensor.layout is not torch.strided
        or tensor.device.type != "cpu"
        or tensor.requires_grad
        or tensor.is_conj()
        or tensor.is_neg()
        or tensor.is_quantized
    ):
        return NotImplemented
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor
    if not tensor.numel():
        return NotImplemented
    return _restore, (flat.numpy(), str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))


def _restore(flat: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor of its own: torch has no read-only tensors, so shared memory is copied."""
    import torch

    data = torch.from_numpy(flat.copy())
    return data.view(getattr(torch, dtype)).reshape(shape)
