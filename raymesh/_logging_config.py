"""`LoggingConfig`: the root loggers of a driver and its workers. Imported when somebody wants one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raymesh._logging import FORMAT, handler_class

if TYPE_CHECKING:
    import logging

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
    handler = handler_class()()
    handler.setFormatter(_formatter(config))
    for old in [h for h in root.handlers if isinstance(h, handler_class())]:
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

    return Formatter(FORMAT)


def _record_attributes() -> set[str]:
    import logging

    return {*vars(logging.makeLogRecord({})), "message", "asctime"}


def _ids_here() -> dict[str, str]:
    from raymesh import _native

    if not _native.is_running():
        return {}
    context = _native.context()
    return {key: context[key].hex() for key in _CONTEXT if context.get(key)}
