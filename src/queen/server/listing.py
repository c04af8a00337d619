"""What the routes that show things share: pages, spans of time, and filling answers from what the engine found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from msgspec import Struct

from queen import errors
from queen.engine.reading import MAX_OFFSET, MAX_PAGE, Window
from queen.engine.reports import Span
from queen.ids import from_wire
from queen.server.request import Request
from queen.server.routing import Query
from queen.server.wire import Wire, millis, time_of

W = TypeVar("W", bound=Wire)

CURSOR: Final = Query("cursor", description="Go on after this nextCursor.")
SPAN: Final = (
    Query("from", description="ISO time the report begins at."),
    Query("to", description="ISO time it ends at; now unless given."),
    Query("queue"),
    Query("namespace"),
    Query("task"),
)


class Pagination(Wire):
    """Which part of the list this is."""

    limit: int
    offset: int
    total: int | None = None


class TimeRange(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """From when to when."""

    since: str
    until: str


def paging(default: int) -> tuple[Query, ...]:
    """The parameters of a list, for its description."""
    return Query("limit", "integer", default=default), Query("offset", "integer", default=0), CURSOR


def window(request: Request, default: int) -> Window:
    """Which page the caller asks for."""
    return Window(
        limit=request.number("limit", default, 1, MAX_PAGE),
        offset=request.number("offset", 0, 0, MAX_OFFSET),
        cursor=request.text("cursor"),
    )


def moment(request: Request, name: str) -> datetime | None:
    """A time among the parameters; None when it is not given."""
    value = request.text(name)
    return None if value is None else time_of(name, value)


def span(request: Request, hours: float) -> Span:
    """The stretch of time and the queues a report is about."""
    until = moment(request, "to") or datetime.now(UTC)
    try:
        since = moment(request, "from") or until - timedelta(hours=hours)
    except OverflowError:
        raise errors.InvalidRequest("to", "to is out of range") from None
    return Span(
        since=since,
        until=until,
        queue=request.text("queue"),
        namespace=request.text("namespace"),
        task=request.text("task"),
    )


def time_range(span: Span) -> TimeRange:
    """The stretch of time as an answer says it."""
    return TimeRange(millis(span.since), millis(span.until))


def partition_of(text: str) -> int:
    """The partition behind its id in a path; one that is no id of ours names no partition."""
    found = from_wire("partition", text)
    return -1 if found is None else found


def name_of(field: str, text: str) -> str:
    """A name from a path, fit for the database."""
    if "\0" in text:
        raise errors.InvalidRequest(field, f"{field} must not contain NUL")
    return text


def fill(kind: type[W], source: Struct, /, **given: Any) -> W:
    """An answer with the fields its kind shares with what the engine found; times become text."""
    values = {
        name: _said(getattr(source, name))
        for name in kind.__struct_fields__
        if name not in given and name in source.__struct_fields__
    }
    return kind(**values, **given)


def _said(value: Any) -> Any:
    return millis(value) if isinstance(value, datetime) else value
