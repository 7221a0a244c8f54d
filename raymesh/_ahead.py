"""What Ray calls import, imported when the runtime starts, by a thread.

`import raymesh` leaves out what a program may not need, and a module that is loaded by its first use
is loaded in the middle of a call. There a signal handler may run, and make a call itself: on the
same thread, which holds the import's lock already, so that it would find half a module. A thread
that does nothing else cannot be interrupted: the handler waits for it, as any other thread would.
"""

from __future__ import annotations

import importlib
import threading

MODULES = (
    "raymesh.cloudpickle",
    "raymesh._causes",
    "raymesh._cluster",
    "raymesh._errors",
    "raymesh._futures",
    "raymesh._pickling",
    "raymesh._sources",
    "raymesh._tensors",
    "raymesh.exceptions",
    "raymesh.runtime_context",
    "raymesh.util",
    "inspect",
    "traceback",
)
"""In no program more than it will import with its first call."""


class Imports:
    """Imports under way."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="raymesh-imports", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for module in MODULES:
                importlib.import_module(module)
            importlib.import_module("raymesh._serialization").warm_up()
        except BaseException as error:
            self._error = error

    def join(self) -> None:
        """Waits for them; raises what they raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
