"""Where the measuring functions register themselves."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.bench.meter import Meter

Body = Callable[[Meter, str], None]
"""Measures one row, or several that belong together; gets the row's name."""

BODIES: dict[str, Body] = {}


def body(key: str) -> Callable[[Body], Body]:
    """Register a measuring function under the key that `catalog.Row.key` gives."""

    def register(function: Body) -> Body:
        BODIES[key] = function
        return function

    return register
