"""POST /api/v1/push."""

from __future__ import annotations

import time
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal
from uuid import UUID

from msgspec import UNSET, Raw, UnsetType, field, json, structs

from queen import errors
from queen.ids import uuid7s
from queen.model import DEFAULT_PARTITION, NewMessage, Pushed, PushStatus
from queen.server.limits import require_at_most
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, partition_id, text, time_of

NULL: Final = Raw(b"null")


def _null() -> Raw:
    return NULL


class PushItem(Wire):
    """A message to push."""

    queue: str
    partition: str = DEFAULT_PARTITION
    payload: Raw = field(default_factory=_null)
    transaction_id: str | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    parent_id: str | None = None
    deliver_at: str | None = None


class Push(Wire):
    """The body of a push."""

    items: list[PushItem]


class PushResult(Wire, rename=None):
    """What became of one message; the names are those clients know. The last three are for buffered ones."""

    index: int
    transaction_id: str
    status: PushStatus | Literal["buffered"]
    message_id: UUID
    queueName: str  # noqa: N815
    trace_id: UUID | None
    partition_id: str | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    queueDepth: int | UnsetType = UNSET  # noqa: N815
    remainingCapacity: int | UnsetType = UNSET  # noqa: N815
    queue: str | UnsetType = UNSET
    partition: str | UnsetType = UNSET
    transactionId: str | UnsetType = UNSET  # noqa: N815


_FIELDS: Final = {field.encode_name for field in structs.fields(PushItem)}
TEXTS: Final = {
    "items": "items array is required",
    "queue": "Queue must be a string",
    "partition": "Partition must be a string",
    "transactionId": "TransactionId must be a string",
    "traceId": "TraceId must be a string",
}
DECODE: Final = Decoder(Push, TEXTS)


async def push(request: Request) -> Response:
    """Store messages, all or none, in order; the same transactionId in a partition is stored once."""
    started = time.monotonic()
    items: list[PushItem] = DECODE(request.body).items
    require_at_most("items", items, request.settings.batch_limit)
    request.identity.require("push", {item.queue for item in items})
    if any(item.payload is NULL for item in items):
        refuse_typos(request.body)
    messages = to_messages(items, request.identity.subject)
    pushed = await request.broker.push(messages) if messages else []
    request.broker.metrics.done("push", len(messages), started)
    if pushed is None:
        return answer([_buffered(index, message) for index, message in enumerate(messages)], 201)
    return answer([say_pushed(index, one) for index, one in enumerate(pushed)], 201)


def refuse_typos(body: bytes) -> None:
    """Refuse items without a payload that have a field of nearly a known name: `paylod` would store null."""
    for number, item in enumerate(json.decode(body)["items"]):
        for name in item.keys() - _FIELDS if "payload" not in item else ():
            if close := get_close_matches(name, _FIELDS, n=1, cutoff=0.75):
                raise errors.InvalidRequest(
                    "payload", f"items[{number}] has no payload but a field {name}: did you mean {close[0]}?"
                )


def to_messages(items: Sequence[PushItem], subject: str | None) -> list[NewMessage]:
    """The engine's form of what came over the wire, with ids that a repeated attempt keeps."""
    return [
        NewMessage(
            queue=item.queue,
            partition=item.partition,
            payload=text(item.payload),
            transaction_id=None if item.transaction_id is UNSET else item.transaction_id,
            trace_id=None if item.trace_id is UNSET else uuid_of("traceId", item.trace_id),
            parent_id=None if item.parent_id is None else uuid_of("parentId", item.parent_id),
            deliver_at=None if item.deliver_at is None else time_of("deliverAt", item.deliver_at),
            producer_sub=subject,
            id=new,
        )
        for item, new in zip(items, uuid7s(len(items)), strict=True)
    ]


def uuid_of(field: str, value: Any) -> UUID:
    """A UUID from its text; anything else is the caller's mistake."""
    try:
        return UUID(value)
    except ValueError:
        raise errors.InvalidRequest(field, f"{field} must be a UUID") from None


def say_pushed(index: int, pushed: Pushed) -> PushResult:
    """What became of one stored message, as an answer says it."""
    return PushResult(
        index,
        pushed.transaction_id,
        pushed.status,
        pushed.id,
        pushed.queue,
        pushed.trace_id,
        partition_id(pushed.partition_id),
        UNSET if pushed.seq is None else pushed.seq,
        UNSET if pushed.depth is None else pushed.depth,
        UNSET if pushed.remaining is None else pushed.remaining,
    )


def _buffered(index: int, message: NewMessage) -> PushResult:
    assert message.id is not None
    name = message.transaction_id or str(message.id)
    return PushResult(
        index,
        name,
        "buffered",
        message.id,
        message.queue,
        message.trace_id,
        queue=message.queue,
        partition=message.partition,
        transactionId=name,
    )


ROUTES = [
    Route(
        "POST",
        "/api/v1/push",
        push,
        body=Push,
        answer=list[PushResult],
        status=201,
        own=True,
        others=(400, 413, 429, 503),
    )
]
