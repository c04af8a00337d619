"""A failed message: what its dead letter keeps of the error, and what the log says."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from queen.client.message import Delivered
from queen.model import Acked

_log = logging.getLogger("queen.client")
# A dead letter keeps this much of an error; the innermost frames are at the end, so it is the middle that is cut.
_LONGEST: Final = 8000


def error_text(error: BaseException) -> str:
    """Type and message on the first line, the traceback below it."""
    first = f"{type(error).__name__}: {error}".strip().removesuffix(":")
    lines = traceback.format_exception(type(error), error, _of_the_caller(error))
    text = f"{first}\n{''.join(lines)}".strip()
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}\n... {len(text) - _LONGEST} characters cut ...\n{text[-_LONGEST // 2 :]}"


def report(
    messages: Sequence[Delivered[Any]],
    error: BaseException,
    acked: Sequence[Acked] = (),
    *,
    delay: float | None = None,
    attempt: int | None = None,
) -> None:
    """One warning with where, which attempt, what comes next, and the traceback."""
    first = messages[0]
    if delay is not None:
        what = f"it is tried again in {delay:.1f} s"
    elif not acked or not all(one.ok for one in acked):
        what = "its lease was lost meanwhile, so it is delivered again"
    elif all(one.dead_letter for one in acked):
        what = "it is a dead letter now" if len(messages) == 1 else "they are dead letters now"
    else:
        what = "it is delivered again" if len(messages) == 1 else "they are delivered again"
    which = first.transaction_id if len(messages) == 1 else f"{len(messages)} messages from {first.transaction_id}"
    _log.warning(
        "%s/%s: %s failed, attempt %d of group %s; %s",
        first.queue,
        first.partition,
        which,
        attempt or first.retry_count + 1,
        first.group,
        what,
        exc_info=(type(error), error, _of_the_caller(error)),
    )


def _of_the_caller(error: BaseException) -> TracebackType | None:
    """The traceback without the frames of this client that called the handler."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_globals.get("__name__", "").startswith("queen.client"):
        found = found.tb_next
    return found or error.__traceback__
