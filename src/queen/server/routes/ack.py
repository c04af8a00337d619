"""POST /api/v1/ack and /api/v1/ack/batch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from uuid import UUID

import msgspec

from queen.ids import from_wire
from queen.model import QUEUE_MODE, Ack, Acked, AckStatus, LeaseAck
from queen.server.handed import HandedOut
from queen.server.limits import require_at_most
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer

_STATUSES: Final[Mapping[str, AckStatus]] = {
    "completed": "completed",
    "success": "completed",
    "failed": "failed",
    "dlq": "dlq",
    "retry": "retry",
}
_REASONS: Final = {
    "lost": "Invalid or expired lease",
    "unknown": "Message not found (unresolvable transactionId)",
    "committed": "Message is already committed",
    "invalid": "status must be completed, failed, dlq or retry",
}


class AckItem(Wire):
    """The outcome of one message."""

    transaction_id: str
    partition_id: str
    lease_id: str | None = None
    status: str = "completed"
    error: str | None = None
    consumer_group: str | None = None


class AckBatch(Wire):
    """The outcomes of several messages of one group."""

    acknowledgments: list[AckItem]
    consumer_group: str | None = None


class AckResult(Wire, omit_defaults=True):
    """What became of one acknowledgement."""

    index: int
    transaction_id: str
    success: bool
    error: str | None
    queue_name: str | None
    partition_name: str | None
    lease_released: bool
    dlq: bool
    noop: bool = False


_TEXTS: Final = {
    "transactionId": "transactionId is required",
    "partitionId": "partitionId is required to ensure message uniqueness",
    "acknowledgments": "acknowledgments array is required",
}
DECODE_ONE: Final = Decoder(AckItem, _TEXTS)
DECODE_BATCH: Final = Decoder(AckBatch, _TEXTS)


async def ack(request: Request) -> Response:
    """Say what became of one message. The answer is an array all the same."""
    item: AckItem = DECODE_ONE(request.body)
    return await _ack(request, [item], item.consumer_group or QUEUE_MODE, "")


async def ack_batch(request: Request) -> Response:
    """Say what became of several messages."""
    body: AckBatch = DECODE_BATCH(request.body)
    require_at_most("acknowledgments", body.acknowledgments, request.settings.batch_limit)
    return await _ack(request, body.acknowledgments, body.consumer_group or QUEUE_MODE, "Retries exhausted")


async def _ack(request: Request, items: Sequence[AckItem], group: str, no_error: str) -> Response:
    started = time.monotonic()
    completed = _completed(request.broker.handed, items, group)
    if completed:
        results = await _ack_leases(request, items, completed)
    else:
        results = await _ack_messages(request, items, group, no_error)
    request.broker.metrics.done("ack", len(items), started)
    return answer(results)


def _completed(handed: HandedOut, items: Sequence[AckItem], group: str) -> dict[tuple[str, str], LeaseAck] | None:
    """One acknowledgement per lease and partition, if everything is completed and was handed out here."""
    found: dict[tuple[str, str], LeaseAck] = {}
    for item in items:
        lease = _lease(item.lease_id) if item.lease_id else None
        partition = _partition(item.partition_id)
        if lease is None or partition is None or _STATUSES.get(item.status) != "completed":
            return None
        known = handed.find((lease, partition), group)
        seq = known.seqs.get(item.transaction_id) if known else None
        if seq is None:
            return None
        key = (item.lease_id or "", item.partition_id)
        if key not in found or seq > found[key].up_to:
            found[key] = LeaseAck(partition_id=partition, lease_id=lease, up_to=seq, group=group)
    return found


async def _ack_leases(
    request: Request, items: Sequence[AckItem], completed: Mapping[tuple[str, str], LeaseAck]
) -> list[AckResult]:
    handed = request.broker.handed
    decided: dict[tuple[str, str], Acked] = {}
    acks = list(completed.values())
    for (key, ack), acked in zip(completed.items(), await request.engine.ack_leases(acks), strict=True):
        known = handed.find((ack.lease_id, ack.partition_id), ack.group)
        names = {"queue": known.queue, "partition": known.partition} if known else {}
        decided[key] = msgspec.structs.replace(acked, **names) if acked.ok else acked
        request.broker.metrics.acknowledged(ack.lease_id, acked)
        (handed.settled if acked.ok else handed.forget)(ack)
    return [_result(index, item, decided[item.lease_id or "", item.partition_id]) for index, item in enumerate(items)]


async def _ack_messages(request: Request, items: Sequence[AckItem], group: str, no_error: str) -> list[AckResult]:
    read = [read_ack(item, group, no_error) for item in items]
    decided = iter(await request.engine.ack([one for one in read if isinstance(one, Ack)]))
    results = []
    for index, (item, one) in enumerate(zip(items, read, strict=True)):
        acked = next(decided) if isinstance(one, Ack) else one
        if isinstance(one, Ack):
            request.broker.metrics.acknowledged(one.lease_id, acked)
        results.append(_result(index, item, acked))
    return results


def read_ack(item: AckItem, group: str, no_error: str) -> Ack | Acked:
    """The engine's form of an acknowledgement, or why it cannot count."""
    partition = _partition(item.partition_id)
    if item.status not in _STATUSES:
        return Acked(verdict="invalid")
    if partition is None or "\0" in item.transaction_id:
        return Acked(verdict="unknown")
    lease = _lease(item.lease_id) if item.lease_id else None
    if lease is None and item.lease_id:
        return Acked(verdict="lost")
    return Ack(
        partition_id=partition,
        transaction_id=item.transaction_id,
        group=group,
        lease_id=lease,
        status=_STATUSES[item.status],
        error=item.error or no_error,
    )


@lru_cache(maxsize=8192)
def _partition(text: str) -> int | None:
    return from_wire("partition", text)


@lru_cache(maxsize=8192)
def _lease(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _result(index: int, item: AckItem, acked: Acked) -> AckResult:
    unknown_word = item.status not in _STATUSES
    return AckResult(
        index,
        item.transaction_id,
        acked.ok,
        None if acked.ok or unknown_word else _REASONS[acked.verdict],
        acked.queue,
        acked.partition,
        acked.released,
        acked.dead_letter,
        acked.verdict == "noop",
    )


ROUTES = [
    Route("POST", "/api/v1/ack", ack, body=AckItem, answer=list[AckResult]),
    Route("POST", "/api/v1/ack/batch", ack_batch, body=AckBatch, answer=list[AckResult]),
]
