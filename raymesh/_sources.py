"""Whether workers would find the module that the driver has, with the same source.

Workers import modules by name, from the driver's `sys.path` as it was when the runtime started. A
module that lies elsewhere, or whose source has changed since (edited and reloaded in a notebook),
is therefore not named but carried along.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_started = 0.0
_path: frozenset[str] = frozenset()


def runtime_started() -> None:
    """Note what workers of the runtime that starts now will see."""
    global _started, _path
    _started = time.time()
    _path = frozenset(os.path.abspath(entry) for entry in sys.path)


def _carried(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py") or not _path:
        return False
    # The directory in which the top-level package or module was found.
    root = os.path.abspath(file)
    for _ in module.__name__.split("."):
        root = os.path.dirname(root)
    if os.path.basename(file) == "__init__.py":
        root = os.path.dirname(root)
    if root not in _path:
        return True
    try:
        return os.stat(file).st_mtime > _started
    except OSError:
        return False


@contextmanager
def as_in_driver(module_name: str) -> Iterator[None]:
    """While it lasts, what `module_name` defines is pickled by value if workers would get it wrong."""
    module = sys.modules.get(module_name)
    if module is None or module_name == "__main__" or not _carried(module):
        yield
        return
    import cloudpickle

    known = module_name in cloudpickle.list_registry_pickle_by_value()
    if not known:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        if not known:
            cloudpickle.unregister_pickle_by_value(module)
