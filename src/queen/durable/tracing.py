"""Log lines of orchestrations and activities, with the instance they belong to."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from pathlib import Path

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_FIELDS = ("instance_id", "execution_id", "orchestration")


def trace(level: str, message: str, instance: str, execution_id: int, name: str) -> None:
    """One line for the user's code; structured fields travel as `extra`."""
    logging.getLogger("queen.durable.trace").log(
        _LEVELS[level],
        "%s",
        message,
        extra={"instance_id": instance, "execution_id": execution_id, "orchestration": name},
    )


class Traces(ABC):
    """The log lines user code can write through its context."""

    def trace_info(self, message: str) -> None:
        """Log a line; an orchestration does so once, not again in replay."""
        self._trace("info", message)

    def trace_warn(self, message: str) -> None:
        """Log a warning."""
        self._trace("warning", message)

    def trace_error(self, message: str) -> None:
        """Log an error."""
        self._trace("error", message)

    def trace_debug(self, message: str) -> None:
        """Log a detail."""
        self._trace("debug", message)

    @abstractmethod
    def _trace(self, level: str, message: str) -> None: ...


def init_tracing(log_file: str, log_level: str | None = None, log_format: str | None = None) -> None:
    """Write durable log lines to a file; `log_format` is `json` or plain text. Once per process."""
    logger = logging.getLogger("queen.durable")
    if any(isinstance(each, _TraceFile) for each in logger.handlers):
        raise RuntimeError("Failed to init tracing: it is already installed")
    level = _LEVELS.get((log_level or "info").lower())
    if level is None:
        raise RuntimeError(f"Failed to init tracing: log_level must be one of {', '.join(_LEVELS)}")
    try:
        handler = _TraceFile(Path(log_file), encoding="utf-8")
    except OSError as error:
        raise RuntimeError(f"Failed to open log file {log_file}: {error}") from error
    handler.setFormatter(_JsonLines() if log_format == "json" else _PlainLines())
    logger.addHandler(handler)
    logger.setLevel(level)


class _TraceFile(logging.FileHandler):
    pass


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"timestamp": record.created, "level": record.levelname, "message": record.getMessage()}
        return json.dumps(line | {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)})


class _PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={getattr(record, name)}" for name in _FIELDS if hasattr(record, name))
        return f"{self.formatTime(record)} {record.levelname} {record.getMessage()} {fields}".rstrip()
