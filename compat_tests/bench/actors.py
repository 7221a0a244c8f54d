"""Actors of the rows about creation and memory: a module that imports nothing else, so that its import is not measured."""

from __future__ import annotations

import os

import ray


@ray.remote(num_cpus=0)
class Idle:
    def pid(self):
        return os.getpid()
