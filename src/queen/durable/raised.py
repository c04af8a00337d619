"""From an exception to the failure that is stored: its type, its causes, its traceback."""

from __future__ import annotations

import traceback
from typing import Literal

from queen.durable.errors import CallFailed, NonRetryable
from queen.durable.events import ApplicationFailure

_LONGEST_TRACEBACK = 16_384
_MOST_CAUSES = 10

Cause = Literal["activity", "orchestration", "panicked"]


def failure_of(
    error: BaseException, message: str, cause: Cause = "activity", *, progress: str | None = None
) -> ApplicationFailure:
    """What is kept of an exception that ended an activity or a workflow."""
    return ApplicationFailure(
        message=message,
        cause=cause,
        error_types=tuple(each.__name__ for each in type(error).__mro__ if each not in (BaseException, object)),
        causes=_causes(error),
        traceback=traceback_of(error),
        non_retryable=isinstance(error, NonRetryable),
        progress=progress,
    )


def traceback_of(error: BaseException) -> str:
    """The traceback with its causes; of a very long one the end, where it says what happened."""
    text = "".join(traceback.format_exception(error))
    return text if len(text) <= _LONGEST_TRACEBACK else "..." + text[-_LONGEST_TRACEBACK:]


def _causes(error: BaseException) -> tuple[str, ...]:
    found: list[str] = []
    seen = {id(error)}
    current: BaseException | None = error
    while current is not None and len(found) < _MOST_CAUSES:
        if isinstance(current, CallFailed):
            found += getattr(current.details, "causes", ())
            break
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if current is None or id(current) in seen:
            break
        seen.add(id(current))
        found.append(f"{type(current).__name__}: {current}")
    return tuple(found[:_MOST_CAUSES])
