"""Imports what the calls that a worker makes need; once, in the zygote, for all of its workers."""

from __future__ import annotations

import importlib

from raymesh import _ahead

for _module in _ahead.MODULES:
    importlib.import_module(_module)
