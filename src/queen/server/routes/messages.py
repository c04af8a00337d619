"""Single messages: look at them, delete them, push them again, put them aside."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

from msgspec import Raw

from queen import errors
from queen.engine.browse import STATUSES, Browser, Delivery, Detail, Filter, Listed
from queen.ids import to_wire
from queen.model import QUEUE_MODE
from queen.server.listing import fill, moment, name_of, paging, partition_of, window
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Decoder, Response, Wire, answer, millis_or_none, partition_id, raw

PAGE: Final = 200
_MINUTE: Final = timedelta(seconds=59, microseconds=999_999)


class BusStatus(Wire):
    """How many of the named groups have passed a message."""

    consumed_by: int
    total_groups: int


class MessageEntry(Wire):
    """A message in a list."""

    id: UUID
    transaction_id: str
    partition_id: str
    queue_path: str
    queue: str
    partition: str
    namespace: str
    task: str
    status: str
    queue_status: str | None
    bus_status: BusStatus
    trace_id: UUID | None
    producer_sub: str | None
    queue_priority: int
    created_at: str
    lease_expires_at: str | None


class ReadBy(Wire):
    """Who reads the queues in question."""

    has_queue_mode: bool
    bus_groups_count: int
    type: str


class MessageList(Wire):
    """Messages, newest first."""

    messages: list[MessageEntry]
    mode: ReadBy
    next_cursor: str | None


class GroupStatus(Wire):
    """How a group stands to a message."""

    name: str
    consumed: bool
    lease_expires_at: str | None


class QueueSettings(Wire):
    """The queue's part in the fate of a message."""

    lease_time: int
    retry_limit: int
    retry_delay: int
    ttl: int
    priority: int


class MessageDetail(MessageEntry):
    """One message with everything about it."""

    payload: Raw
    is_encrypted: bool
    error_message: str | None
    retry_count: int
    parent_id: UUID | None
    queue_config: QueueSettings
    consumer_groups: list[GroupStatus]
    problem: str | None = None


class MessageDeleted(Wire):
    """Whether there was such a message."""

    success: bool
    partition_id: str
    transaction_id: str
    message: str


class DeliveryEntry(Wire):
    """One batch a message was handed out in."""

    consumer_group: str
    lease_id: UUID | None
    batch_from: int
    batch_to: int
    leased_at: str
    ended_at: str | None
    outcome: str
    retry_count: int
    failed: int


class DeliveryList(Wire):
    """The story of a message, oldest first."""

    deliveries: list[DeliveryEntry]


class MessageRetried(Wire):
    """The message that was pushed in place of the old one."""

    success: bool
    message_id: UUID
    transaction_id: str
    queue: str


class Bury(Wire):
    """For whom to give a message up, and why."""

    consumer_group: str | None = None
    error: str | None = None
    error_message: str | None = None


class MessageBuried(Wire):
    """The dead letter a message became."""

    success: bool
    dead_letter_id: str
    consumer_group: str


DECODE_BURY: Final = Decoder(Bury)


def say_message(listed: Listed) -> MessageEntry:
    """A message as a list shows it."""
    return fill(MessageEntry, listed, **_parts(listed))


def say_delivery(delivery: Delivery) -> DeliveryEntry:
    """A delivery as an answer says it."""
    return fill(DeliveryEntry, delivery, consumer_group=delivery.group)


def _parts(listed: Listed) -> dict[str, object]:
    return {
        "partition_id": partition_id(listed.partition_id),
        "queue_path": f"{listed.queue}/{listed.partition}",
        "bus_status": BusStatus(listed.consumed_by, listed.total_groups),
        "queue_priority": listed.priority,
    }


def _detail(detail: Detail) -> MessageDetail:
    return fill(
        MessageDetail,
        detail.listed,
        **_parts(detail.listed),
        payload=raw(detail.payload),
        is_encrypted=detail.is_encrypted,
        error_message=detail.error_message,
        retry_count=detail.retry_count,
        parent_id=detail.parent_id,
        queue_config=fill(QueueSettings, detail, priority=detail.listed.priority),
        consumer_groups=[
            GroupStatus(group.name, group.consumed, millis_or_none(group.lease_expires_at)) for group in detail.groups
        ],
        problem=detail.broken,
    )


def _browser(request: Request) -> Browser:
    return Browser(request.engine.database, request.engine.keys, request.engine.wake)


def wanted(request: Request, queue: str | None) -> Filter:
    """Which messages the caller asks for; `to` covers its whole minute."""
    status = request.text("status")
    if status is not None and status not in STATUSES:
        raise errors.InvalidRequest("status", f"status must be one of {', '.join(STATUSES)}")
    until = moment(request, "to")
    return Filter(
        queue=queue,
        partition=request.text("partition"),
        namespace=request.text("ns") or request.text("namespace"),
        task=request.text("task"),
        status=status,
        since=moment(request, "from"),
        until=None if until is None else until.replace(second=0, microsecond=0) + _MINUTE,
    )


def _place(request: Request) -> tuple[int, str]:
    partition, transaction = request.params
    return partition_of(partition), name_of("transactionId", transaction)


def _missing() -> errors.MessageNotFound:
    return errors.MessageNotFound("Message not found")


async def messages(request: Request) -> Response:
    """Messages without their payloads, newest first; of the last hour unless `from` says otherwise."""
    page, readers = await _browser(request).browse(wanted(request, request.text("queue")), window(request, PAGE))
    mode = ReadBy(readers.queue_mode, readers.named, readers.kind)
    return answer(MessageList([say_message(each) for each in page.items], mode, page.next_cursor))


async def message(request: Request) -> Response:
    """One message with its payload and how each group stands to it."""
    detail = await _browser(request).message(*_place(request))
    if detail is None:
        raise _missing()
    return answer(_detail(detail))


async def delete(request: Request) -> Response:
    """Remove one message by hand."""
    existed = request.changed = await request.engine.delete_message(*_place(request))
    partition, transaction = request.params
    words = "Message deleted successfully" if existed else "Message not found"
    return answer(MessageDeleted(existed, partition, transaction, words))


async def deliveries(request: Request) -> Response:
    """Every batch a message was handed out in, oldest first."""
    story = await _browser(request).deliveries(*_place(request))
    if story is None:
        raise _missing()
    return answer(DeliveryList([say_delivery(each) for each in story]))


async def retry(request: Request) -> Response:
    """Push a message again, as a new one with the old one as its parent."""
    again = await _browser(request).retry(*_place(request))
    if again is None:
        raise _missing()
    return answer(MessageRetried(True, again.id, str(again.id), again.queue))


async def bury(request: Request) -> Response:
    """Move a message to the dead letters of a group; other groups still get it."""
    body: Bury = DECODE_BURY(request.body)
    group = body.consumer_group or QUEUE_MODE
    error = body.error or body.error_message or "Moved to the dead letters by hand"
    number = await _browser(request).bury(*_place(request), group=group, error=error)
    if number is None:
        raise _missing()
    return answer(MessageBuried(True, to_wire("dead-letter", number), group))


FILTERS: Final = (
    Query("partition"),
    Query("ns", description="Namespace."),
    Query("task"),
    Query("status", description=f"One of {', '.join(STATUSES)}."),
    Query("from", description="ISO time; one hour ago unless given."),
    Query("to", description="ISO time; covers its whole minute."),
    *paging(PAGE),
)
_ONE: Final = "/api/v1/messages/:partitionId/:transactionId"

ROUTES = [
    Route("GET", "/api/v1/messages", messages, role="read", answer=MessageList, query=(Query("queue"), *FILTERS)),
    Route("GET", _ONE, message, role="read", answer=MessageDetail, others=(404,)),
    Route("DELETE", _ONE, delete, answer=MessageDeleted, act="delete-message"),
    Route("GET", f"{_ONE}/deliveries", deliveries, role="read", answer=DeliveryList, others=(404,)),
    Route("POST", f"{_ONE}/retry", retry, answer=MessageRetried, others=(404, 429), act="retry-message"),
    Route("POST", f"{_ONE}/dlq", bury, body=Bury, answer=MessageBuried, others=(404,), act="bury"),
]
