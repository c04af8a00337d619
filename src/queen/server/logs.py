"""Structured logs: one event per line, to people on a terminal, to machines as JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, Final

import structlog

from queen.config import Settings

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up(settings: Settings) -> None:
    """Send our own events and those of the libraries the same way.

    Workers share one output, so an event and its line's end leave in one write.
    """
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    shared: list[Callable[..., Any]] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Callable[..., Any]] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [output]
    root.setLevel(LEVELS[settings.log_level])
    logging.getLogger("httpcore2").setLevel(logging.WARNING)
