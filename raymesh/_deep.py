"""Values that are nested deep: the pickler goes down into them by recursion, which Python limits."""

from __future__ import annotations

import pickle
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LIMIT = 4_000
"""Takes less than 1 MiB of stack, whatever the values' classes are."""

_ROOMY = 2 << 20
"""A stack of this size holds `_LIMIT` calls and what is there already."""

_lock = threading.Lock()


@contextmanager
def recursion() -> Iterator[None]:
    """Allows deeper recursion, to `_LIMIT`, where stacks have their usual size (8 MiB) or not much less."""
    with _lock:
        before = sys.getrecursionlimit()
        raised = before < _LIMIT and _is_roomy()
        if raised:
            sys.setrecursionlimit(_LIMIT)
        try:
            yield
        finally:
            if raised:
                sys.setrecursionlimit(before)


def _is_roomy() -> bool:
    own = threading.stack_size()
    default = resource.getrlimit(resource.RLIMIT_STACK)[0]
    unlimited = default == resource.RLIM_INFINITY
    return (own == 0 or own >= _ROOMY) and (unlimited or default >= _ROOMY)


def is_cause_of(error: BaseException) -> bool:
    """Whether recursion ran into its limit; cloudpickle says so by an error of its own."""
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def too_deep(value: Any) -> pickle.PicklingError:
    """The error for a value of which even `_LIMIT` is not enough."""
    return pickle.PicklingError(
        f"Could not serialize a {type(value).__qualname__}: it is nested too deeply (thousands of "
        "levels), and the pickler goes down by recursion.\n"
        "hint: pass a flat form of it (a list of nodes that refer to each other by index), or "
        "pickle it yourself under a higher sys.setrecursionlimit() and pass the bytes."
    )
