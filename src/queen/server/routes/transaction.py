"""POST /api/v1/transaction: pushes and acknowledgements that happen together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from queen import errors
from queen.engine import Committed, RolledBack
from queen.ids import uuid7
from queen.model import QUEUE_MODE, Ack, Acked, PushStatus
from queen.server.limits import require_at_most
from queen.server.request import Request
from queen.server.routes.ack import AckItem, former_partitions, read_ack, require_leases
from queen.server.routes.push import TEXTS, PushItem, to_messages
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, partition_id


class PushOperation(Wire, tag_field="type", tag="push"):
    """Messages to push."""

    items: list[PushItem]


class AckOperation(AckItem, tag_field="type", tag="ack"):
    """The outcome of one message."""


class Transaction(Wire):
    """What is to happen together."""

    operations: list[PushOperation | AckOperation]
    required_leases: list[str | None] | None = None


class OperationResult(Wire):
    """What became of one pushed message, or of one acknowledgement."""

    index: int
    type: Literal["push", "ack"]
    success: bool
    transaction_id: str
    error: str | UnsetType | None = UNSET
    dlq: bool | UnsetType = UNSET
    message_id: UUID | UnsetType = UNSET
    partition_id: str | UnsetType = UNSET
    queue_name: str | UnsetType = UNSET
    status: PushStatus | UnsetType = UNSET
    seq: int | UnsetType = UNSET


class TransactionResult(Wire, omit_defaults=True):
    """Whether it happened, and each operation's part in it."""

    transaction_id: UUID
    success: bool
    results: list[OperationResult]
    error: str | None = None
    code: str | None = None


DECODE: Final = Decoder(
    Transaction,
    {
        **TEXTS,
        "operations": "operations array required",
        "transactionId": "transactionId is required",
        "partitionId": "partitionId is required to ensure message uniqueness",
        "type": "type must be push or ack",
    },
)


async def transaction(request: Request) -> Response:
    """Push and acknowledge in one commit. Answers 200 either way; `success` tells."""
    body: Transaction = DECODE(request.body)
    if not body.operations:
        raise errors.InvalidRequest("operations", "operations array cannot be empty")
    items = [item for one in body.operations if isinstance(one, PushOperation) for item in one.items]
    acks = [one for one in body.operations if isinstance(one, AckOperation)]
    require_at_most("operations", [*items, *acks], request.settings.batch_limit)
    request.identity.require("push", {item.queue for item in items})
    require_leases(request, acks)
    number = uuid7()
    former = await former_partitions(request, acks)
    read = [read_ack(item, item.consumer_group or QUEUE_MODE, "", former) for item in acks]
    try:
        leases = _leases(body.required_leases or ())
        for index, one in enumerate(read):
            if not isinstance(one, Ack):
                raise RolledBack(_refusal(one), one, index)
        messages = to_messages(items, None)
        committed = await request.engine.transaction(
            messages, [one for one in read if isinstance(one, Ack)], leases=leases, unique=True
        )
    except RolledBack as error:
        done = [_acked(index, item) for index, item in enumerate(acks[: error.index])]
        text = f"ACK operation failed: {error.message}"
        failed = OperationResult(error.index, "ack", False, acks[error.index].transaction_id, text)
        return answer(TransactionResult(number, False, [*done, failed], text, error.code))
    except (errors.LeaseLost, errors.RequestError) as error:
        if isinstance(error, errors.InvalidRequest):
            raise
        return answer(TransactionResult(number, False, [], error.message, error.code))
    return answer(TransactionResult(number, True, _results(body.operations, committed)))


def _leases(given: Sequence[str | None]) -> list[UUID]:
    try:
        return [UUID(text) for text in dict.fromkeys(given) if text]
    except ValueError:
        raise errors.LeaseLost("a required lease is not known; the transaction was rolled back") from None


def _refusal(one: Acked) -> str:
    words = {"lost": "Invalid or expired lease", "invalid": "status must be completed, failed or dlq"}
    reason = words.get(one.verdict, "Message not found (unresolvable transactionId)")
    return f"{reason}; the transaction was rolled back"


def _acked(index: int, item: AckItem, acked: Acked | None = None) -> OperationResult:
    return OperationResult(index, "ack", True, item.transaction_id, None, bool(acked and acked.dead_letter))


def _results(operations: Sequence[PushOperation | AckOperation], committed: Committed) -> list[OperationResult]:
    pushed, acked = iter(committed.pushed), iter(committed.acked)
    results: list[OperationResult] = []
    for operation in operations:
        if isinstance(operation, AckOperation):
            results.append(_acked(len(results), operation, next(acked)))
            continue
        for _ in operation.items:
            one = next(pushed)
            results.append(
                OperationResult(
                    len(results),
                    "push",
                    True,
                    one.transaction_id,
                    message_id=one.id,
                    partition_id=partition_id(one.partition_id),
                    queue_name=one.queue,
                    status=one.status,
                    seq=UNSET if one.seq is None else one.seq,
                )
            )
    return results


ROUTES = [
    Route(
        "POST",
        "/api/v1/transaction",
        transaction,
        body=Transaction,
        answer=TransactionResult,
        own=True,
        others=(400, 429, 503),
    )
]
