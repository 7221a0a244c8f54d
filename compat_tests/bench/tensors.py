"""Rows about tensors that one actor makes and another takes.

Apart from the other bodies, because every process that imports this imports torch.
"""

from __future__ import annotations

import functools

import ray
import torch

from compat_tests.bench.bodies import body
from compat_tests.bench.catalog import HANDED_OVER, SIZES
from compat_tests.bench.meter import Meter


@ray.remote(num_cpus=0)
class Maker:
    def __init__(self):
        self.tensor = torch.empty(0)

    def make(self, size):
        if self.tensor.numel() != size:
            self.tensor = torch.ones(size, dtype=torch.uint8)
        return self.tensor


@ray.remote(num_cpus=0)
class Taker:
    def take(self, tensor):
        return int(tensor[-1])


@functools.cache
def pair():
    """One pair for all sizes: it takes seconds until two processes have imported torch."""
    return Maker.remote(), Taker.remote()


def _hand_over(size: int):
    def measure(meter: Meter, row: str) -> None:
        maker, taker = pair()

        def hand_over():
            assert ray.get(taker.take.remote(maker.make.remote(size))) == 1

        meter.cost(row, hand_over, per_second=1e3)

    return measure


for _name in HANDED_OVER:
    body(f"tensor from actor to actor, {_name}")(_hand_over(SIZES[_name]))
