"""Traces: events noted about messages, and every message of a trace id."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Raw

from queen import errors
from queen.engine.traces import Trace, TracedMessage, Traces
from queen.ids import to_wire
from queen.server.listing import Pagination, fill, name_of, paging, partition_of, window
from queen.server.request import Request
from queen.server.routes.messages import DeliveryEntry, say_delivery
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, millis, partition_id, raw, text

PAGE: Final = 100
NAMES: Final = 50


class RecordTrace(Wire):
    """An event in the life of a message."""

    transaction_id: str
    partition_id: str
    data: Raw
    consumer_group: str | None = None
    event_type: str | None = None
    trace_names: list[str] | str | None = None


class TraceRecorded(Wire, omit_defaults=True):
    """The event's id, or why there is none."""

    success: bool
    trace_id: str | None = None
    error: str | None = None


class TraceEntry(Wire, rename=None):
    """One event."""

    id: str
    event_type: str
    data: Raw
    consumer_group: str | None
    worker_id: str | None
    created_at: str
    trace_names: list[str]


class NamedTraceEntry(TraceEntry, rename=None):
    """One event with its message."""

    transaction_id: str
    partition_id: str
    queue_name: str
    partition_name: str
    message_payload: Raw


class TraceList(Wire):
    """Events, oldest first."""

    traces: list[TraceEntry]


class NamedTraceList(Wire):
    """Events of one name, oldest first."""

    traces: list[NamedTraceEntry]
    total: int
    pagination: Pagination
    next_cursor: str | None


class TraceNameEntry(Wire, rename=None):
    """A name events were noted under."""

    trace_name: str
    trace_count: int
    message_count: int
    last_seen: str


class TraceNameList(Wire, rename=None):
    """Names, the most recent first."""

    trace_names: list[TraceNameEntry]
    total: int
    pagination: Pagination


class TracedEntry(Wire):
    """A message of a trace id."""

    id: UUID
    transaction_id: str
    partition_id: str
    queue: str
    partition: str
    seq: int
    parent_id: UUID | None
    producer_sub: str | None
    payload: Raw
    created_at: str
    deliveries: list[DeliveryEntry]


class TracedList(Wire):
    """Every message of a trace id, in time order."""

    trace_id: UUID
    messages: list[TracedEntry]


DECODE: Final = Decoder(
    RecordTrace,
    {
        "transactionId": "transactionId is required",
        "partitionId": "partitionId is required",
        "data": "data is required",
        "traceNames": "traceNames must be null, a string or an array of strings",
    },
)


def _traces(request: Request) -> Traces:
    return Traces(request.engine.database, request.engine.keys)


def _entry(trace: Trace) -> dict[str, object]:
    return {
        "id": to_wire("trace", trace.id),
        "event_type": trace.event_type,
        "data": raw(trace.data),
        "consumer_group": trace.group,
        "worker_id": None,
        "created_at": millis(trace.created_at),
        "trace_names": trace.names,
    }


def _traced(message: TracedMessage) -> TracedEntry:
    return fill(
        TracedEntry,
        message,
        partition_id=partition_id(message.partition_id),
        payload=raw(message.payload),
        deliveries=[say_delivery(each) for each in message.deliveries],
    )


async def record(request: Request) -> Response:
    """Note an event in the life of a message, under any number of names."""
    body: RecordTrace = DECODE(request.body)
    names = [body.trace_names] if isinstance(body.trace_names, str) else body.trace_names or []
    try:
        number = await _traces(request).record(
            partition_of(body.partition_id),
            body.transaction_id,
            text(body.data),
            group=body.consumer_group,
            event_type=body.event_type or "info",
            names=[name for name in names if name],
        )
    except errors.MessageNotFound as error:
        # In the form clients of 0.15 know; they swallow it, whatever the status.
        return answer(TraceRecorded(False, error=error.message), 404)
    return answer(TraceRecorded(True, to_wire("trace", number)), 201)


async def of_message(request: Request) -> Response:
    """The events of one message, oldest first."""
    partition, transaction = request.params
    found = await _traces(request).of_message(partition_of(partition), name_of("transactionId", transaction))
    return answer(TraceList([TraceEntry(**_entry(trace)) for trace in found]))  # type: ignore[arg-type]


async def by_name(request: Request) -> Response:
    """The events noted under one name, with their messages."""
    (name,) = request.params
    asked = window(request, PAGE)
    page, total = await _traces(request).by_name(name_of("name", name), asked)
    entries = [
        NamedTraceEntry(
            **_entry(each.trace),  # type: ignore[arg-type]
            transaction_id=each.trace.transaction_id,
            partition_id=partition_id(each.trace.partition_id),
            queue_name=each.queue,
            partition_name=each.partition,
            message_payload=raw(each.payload or "null"),
        )
        for each in page.items
    ]
    return answer(NamedTraceList(entries, total, Pagination(asked.limit, asked.offset, total), page.next_cursor))


async def names(request: Request) -> Response:
    """The names in use, the most recent first."""
    asked = window(request, NAMES)
    found, total = await _traces(request).names(asked)
    entries = [TraceNameEntry(each.name, each.traces, each.messages, millis(each.last_seen)) for each in found]
    return answer(TraceNameList(entries, total, Pagination(asked.limit, asked.offset, total)))


async def by_id(request: Request) -> Response:
    """Every message of a trace id over all queues, in time order, with its deliveries."""
    (wire,) = request.params
    try:
        trace_id = UUID(wire)
    except ValueError:
        raise errors.InvalidRequest("trace_id", "traceId must be a UUID") from None
    return answer(TracedList(trace_id, [_traced(message) for message in await _traces(request).by_id(trace_id)]))


ROUTES = [
    Route("POST", "/api/v1/traces", record, body=RecordTrace, answer=TraceRecorded, status=201),
    Route("GET", "/api/v1/traces/names", names, role="read", answer=TraceNameList, query=paging(NAMES)),
    Route("GET", "/api/v1/traces/by-name/:name", by_name, role="read", answer=NamedTraceList, query=paging(PAGE)),
    Route("GET", "/api/v1/traces/id/:traceId", by_id, role="read", answer=TracedList),
    Route("GET", "/api/v1/traces/:partitionId/:transactionId", of_message, role="read", answer=TraceList),
]
