"""Scheduled messages: what waits for its time."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Raw

from queen import errors
from queen.engine.scheduled import Schedule
from queen.server.listing import fill, paging, window
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Response, Wire, answer, raw

PAGE: Final = 100


class ScheduledEntry(Wire):
    """A message that waits for its time."""

    id: UUID
    queue: str
    partition: str
    deliver_at: str
    transaction_id: str
    trace_id: UUID | None
    parent_id: UUID | None
    payload: Raw
    producer_sub: str | None
    created_at: str


class ScheduledList(Wire):
    """Waiting messages, the next one due first."""

    messages: list[ScheduledEntry]
    next_cursor: str | None


class ScheduledCancelled(Wire):
    """The message will not be delivered."""

    success: bool
    id: UUID


def _schedule(request: Request) -> Schedule:
    return Schedule(request.engine.database, request.engine.keys)


async def scheduled(request: Request) -> Response:
    """Messages that wait for their time, the next one due first."""
    page = await _schedule(request).waiting(request.text("queue"), window(request, PAGE))
    entries = [fill(ScheduledEntry, each, payload=raw(each.payload)) for each in page.items]
    return answer(ScheduledList(entries, page.next_cursor))


async def cancel(request: Request) -> Response:
    """Take a message off the schedule."""
    (wire,) = request.params
    try:
        message_id = UUID(wire)
    except ValueError:
        raise errors.InvalidRequest("id", "id must be a UUID") from None
    if not await _schedule(request).cancel(message_id):
        raise errors.MessageNotFound("there is no such message on the schedule; it may have been delivered")
    return answer(ScheduledCancelled(True, message_id))


ROUTES = [
    Route(
        "GET",
        "/api/v1/scheduled",
        scheduled,
        role="read",
        answer=ScheduledList,
        query=(Query("queue"), *paging(PAGE)),
    ),
    Route("DELETE", "/api/v1/scheduled/:id", cancel, answer=ScheduledCancelled, others=(404,)),
]
