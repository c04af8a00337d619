"""POST /api/v1/push."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Raw

from queen.ids import to_wire
from queen.model import DEFAULT_PARTITION, NewMessage
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, text


class PushItem(Wire):
    """A message to push."""

    queue: str
    partition: str = DEFAULT_PARTITION
    payload: Raw = Raw(b"null")
    transaction_id: str | None = None
    trace_id: UUID | None = None


class Push(Wire):
    """The body of a push."""

    items: list[PushItem]


class PushResult(Wire, rename=None):
    """What became of one message; snake_case but for one, as clients know it."""

    index: int
    transaction_id: str
    status: str
    message_id: str
    partition_id: str
    trace_id: str | None
    queueName: str  # noqa: N815


DECODE: Final = Decoder(
    Push,
    {
        "items": "items array is required",
        "queue": "Queue must be a string",
        "partition": "Partition must be a string",
        "transactionId": "TransactionId must be a string",
        "traceId": "TraceId must be a string",
    },
)


async def push(request: Request) -> Response:
    """Store messages, all or none, in order."""
    body = DECODE(request.body)
    items = [
        NewMessage(
            queue=item.queue,
            partition=item.partition,
            payload=text(item.payload),
            transaction_id=item.transaction_id,
            trace_id=item.trace_id,
            producer_sub=request.identity.subject,
        )
        for item in body.items
    ]
    results = [
        PushResult(
            index=index,
            transaction_id=pushed.transaction_id,
            status=pushed.status,
            message_id=str(pushed.id),
            partition_id=to_wire("partition", pushed.partition_id),
            trace_id=str(pushed.trace_id) if pushed.trace_id else None,
            queueName=pushed.queue,
        )
        for index, pushed in enumerate(await request.engine.push(items))
    ]
    return answer(results, 201)


ROUTES = [Route("POST", "/api/v1/push", push, role="write", body=Push, answer=list[PushResult], status=201)]
