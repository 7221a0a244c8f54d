"""The "raymesh" logger of the driver, and `LoggingConfig`. `logging` is imported when first used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

_FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"


def logger() -> logging.Logger:
    """The logger that raymesh itself writes to."""
    import logging

    return logging.getLogger("raymesh")


def configure(level: int | str, format: str | None) -> None:
    """Shows the log of raymesh in the driver, on stderr, at this level."""
    import logging

    log = logger()
    log.setLevel(level.upper() if isinstance(level, str) else level)
    own = [handler for handler in log.handlers if isinstance(handler, _handler_class())]
    if not own:
        own = [_handler_class()()]
        log.addHandler(own[0])
        log.propagate = False
    own[0].setFormatter(logging.Formatter(format or _FORMAT))


def _handler_class() -> Any:
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


CONFIG_VARIABLE = "RAYMESH_LOGGING_CONFIG"
"""Hands the configuration of the driver on to its workers."""

_CONTEXT = ("job_id", "worker_id", "node_id", "actor_id", "task_id")


@dataclass
class LoggingConfig:
    """How the root loggers of the driver and of the workers are set up; give it to `init`."""

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.encoding not in ("TEXT", "JSON"):
            raise ValueError(f"Invalid encoding type: {self.encoding}. Valid are TEXT and JSON")
        self.additional_log_standard_attrs = list(self.additional_log_standard_attrs)
        known = _record_attributes()
        for name in self.additional_log_standard_attrs:
            if name not in known:
                raise ValueError(
                    f"Unknown python logging standard attribute: {name}. "
                    f"The valid attributes are: {sorted(known)}"
                )

    def to_json(self) -> str:
        """For a worker's environment."""
        import json

        return json.dumps(vars(self))


def apply_from_environment() -> None:
    """In a worker: what the driver gave to `init`."""
    import json
    import os

    apply(LoggingConfig(**json.loads(os.environ[CONFIG_VARIABLE])))


def apply(config: LoggingConfig) -> None:
    """Gives the root logger one handler that writes as configured."""
    import logging

    root = logging.getLogger()
    handler = _handler_class()()
    handler.setFormatter(_formatter(config))
    for old in [h for h in root.handlers if isinstance(h, _handler_class())]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(config.log_level)


def _formatter(config: LoggingConfig) -> Any:
    import json
    import logging

    extra = config.additional_log_standard_attrs
    standard = _record_attributes()

    class Formatter(logging.Formatter):
        """A record with the ids of where it was written, as text or as JSON."""

        def format(self, record: logging.LogRecord) -> str:
            text = super().format(record)
            fields = {**_ids_here(), **{name: getattr(record, name, None) for name in extra}}
            fields.update({k: v for k, v in vars(record).items() if k not in standard})
            if config.encoding == "TEXT":
                return " ".join([text, *(f"{key}={value}" for key, value in fields.items())])
            whole = {
                "asctime": self.formatTime(record),
                "levelname": record.levelname,
                "message": record.getMessage(),
                "filename": record.filename if hasattr(record, "filename") else "",
                "lineno": record.lineno,
                **fields,
                "timestamp_ns": int(record.created * 1e9),
            }
            if record.exc_info:
                whole["exc_text"] = self.formatException(record.exc_info)
            return json.dumps(whole, default=str)

    return Formatter(_FORMAT)


def _record_attributes() -> set[str]:
    import logging

    return {*vars(logging.makeLogRecord({})), "message", "asctime"}


def _ids_here() -> dict[str, str]:
    from raymesh import _native

    if not _native.is_running():
        return {}
    context = _native.context()
    return {key: context[key].hex() for key in _CONTEXT if context.get(key)}
