"""The "raymesh" logger of the driver. `logging` is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"


def logger() -> logging.Logger:
    """The logger that raymesh itself writes to."""
    import logging

    return logging.getLogger("raymesh")


def configure(level: int | str, format: str | None) -> None:
    """Shows the log of raymesh in the driver, on stderr, at this level."""
    import logging

    log = logger()
    log.setLevel(level.upper() if isinstance(level, str) else level)
    own = [handler for handler in log.handlers if isinstance(handler, handler_class())]
    if not own:
        own = [handler_class()()]
        log.addHandler(own[0])
        log.propagate = False
    own[0].setFormatter(logging.Formatter(format or FORMAT))


def handler_class() -> Any:
    import logging
    import sys

    global _Handler
    if _Handler is None:
        # Python 3.10 cannot subscript it.
        class CurrentStderr(logging.StreamHandler):  # type: ignore[type-arg]
            """Writes to what `sys.stderr` is at the time, as under pytest or in a notebook."""

            def emit(self, record: logging.LogRecord) -> None:
                self.stream = sys.stderr
                super().emit(record)

        _Handler = CurrentStderr
    return _Handler


_Handler: Any = None
