"""POST /api/v1/ack and /api/v1/ack/batch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from uuid import UUID

from queen import telemetry
from queen.ids import from_wire
from queen.model import QUEUE_MODE, Ack, Acked, AckStatus, AckVerdict, LeaseAck
from queen.server.auth import NotAllowed
from queen.server.handed import Handed, HandedOut, Lane
from queen.server.limits import require_at_most
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, encode, quoted

_STATUSES: Final[Mapping[str, AckStatus]] = {
    "completed": "completed",
    "success": "completed",
    "failed": "failed",
    "dlq": "dlq",
    "retry": "retry",
}
_REASONS: Final[Mapping[AckVerdict, str]] = {
    "lost": "Invalid or expired lease",
    "unknown": "Message not found (unresolvable transactionId)",
    "committed": "Message is already committed",
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


class Outcome(Wire, omit_defaults=True):
    """What became of an acknowledgement."""

    success: bool
    error: str | None
    queue_name: str | None
    partition_name: str | None
    lease_released: bool
    dlq: bool
    noop: bool = False


class AckResult(Outcome, omit_defaults=True, kw_only=True):
    """What became of one acknowledgement of a request."""

    index: int
    transaction_id: str


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
    require_leases(request, items)
    completed = _completed(request.broker.handed, items, group)
    if completed:
        decided = await _ack_leases(request, completed, group)
        outcomes = [decided[item.lease_id, item.partition_id] for item in items]
    else:
        outcomes = await _ack_messages(request, items, group, no_error)
    request.broker.metrics.done("ack", len(items), started)
    # As text: the items of a batch have few different outcomes, and each is written once.
    results = [
        f'{{"index":{index},"transactionId":{quoted(item.transaction_id)},{outcome}'
        for index, (item, outcome) in enumerate(zip(items, outcomes, strict=True))
    ]
    return Response(200, f"[{','.join(results)}]".encode())


def require_leases(request: Request, items: Sequence[AckItem]) -> None:
    """A token that names queues acknowledges only what it popped, and the lease is what shows that."""
    if request.identity.queues is not None and not all(item.lease_id for item in items):
        raise NotAllowed("the token is for single queues: acknowledgements need the leaseId of the pop")


def _completed(handed: HandedOut, items: Sequence[AckItem], group: str) -> dict[Lane, tuple[Handed, int]]:
    """The highest seq of each lease and partition; nothing unless all is completed and was handed out here."""
    found: dict[Lane, tuple[Handed, int]] = {}
    lane: Lane = ("", "")
    known: Handed | None = None
    highest = -1
    for item in items:
        if item.lease_id != lane[0] or item.partition_id != lane[1]:
            lane = (item.lease_id, item.partition_id)
            known = handed.find(lane, group)
            highest = found[lane][1] if lane in found else -1
        seq = known.seqs.get(item.transaction_id) if known else None
        if known is None or seq is None or _STATUSES.get(item.status) != "completed":
            return {}
        if seq > highest:
            found[lane] = (known, seq)
            highest = seq
    return found


async def _ack_leases(request: Request, completed: Mapping[Lane, tuple[Handed, int]], group: str) -> dict[Lane, str]:
    acks = [
        LeaseAck(partition_id=known.first.partition_id, lease_id=known.lease_id, up_to=seq, group=group)
        for known, seq in completed.values()
    ]
    decided: dict[Lane, str] = {}
    held = [request.broker.metrics.held(ack.lease_id) for ack in acks]
    with telemetry.about(next(iter(completed.values()))[0].first):
        answers = await request.engine.ack_leases(acks)
    for (lane, (known, seq)), work, acked in zip(completed.items(), held, answers, strict=True):
        names = (known.first.queue, known.first.partition) if acked.ok else (None, None)
        decided[lane] = _outcome(acked.verdict, acked.released, acked.dead_letter, *names)
        request.broker.metrics.acknowledged(work, acked)
        if acked.ok:
            request.broker.handed.settled(lane, seq)
        else:
            request.broker.handed.forget(lane)
    return decided


async def _ack_messages(request: Request, items: Sequence[AckItem], group: str, no_error: str) -> list[str]:
    former = await former_partitions(request, items)
    read = [read_ack(item, group, no_error, former) for item in items]
    metrics = request.broker.metrics
    held = iter([metrics.held(one.lease_id) for one in read if isinstance(one, Ack)])
    decided = iter(await request.engine.ack([one for one in read if isinstance(one, Ack)]))
    outcomes = []
    for one in read:
        acked = next(decided) if isinstance(one, Ack) else one
        if isinstance(one, Ack):
            metrics.acknowledged(next(held), acked)
        outcomes.append(_outcome(acked.verdict, acked.released, acked.dead_letter, acked.queue, acked.partition))
    return outcomes


async def former_partitions(request: Request, items: Sequence[AckItem]) -> Mapping[str, int]:
    """The partitions behind ids that a client was given before its system was moved from an earlier schema."""
    foreign = {item.partition_id for item in items if _partition(item.partition_id) is None}
    known = {text: number for text in foreign if (number := _uuid(text)) is not None}
    if not known:
        return {}
    found = await request.engine.former_partitions(list(known.values()))
    return {text: found[number] for text, number in known.items() if number in found}


def read_ack(item: AckItem, group: str, no_error: str, former: Mapping[str, int]) -> Ack | Acked:
    """The engine's form of an acknowledgement, or why it cannot count."""
    partition = _partition(item.partition_id) or former.get(item.partition_id)
    if item.status not in _STATUSES:
        return Acked(verdict="invalid")
    if partition is None or "\0" in item.transaction_id:
        return Acked(verdict="unknown")
    lease = _uuid(item.lease_id) if item.lease_id else None
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
def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _outcome(verdict: AckVerdict, released: bool, dead: bool, queue: str | None, partition: str | None) -> str:  # noqa: FBT001
    """The rest of an `AckResult` after its own two fields. An unknown word has no reason, as clients know it."""
    ok = verdict in ("acked", "noop")
    reason = None if ok else _REASONS.get(verdict)
    return encode(Outcome(ok, reason, queue, partition, released, dead, verdict == "noop"))[1:].decode()


ROUTES = [
    Route("POST", "/api/v1/ack", ack, body=AckItem, answer=list[AckResult], own=True),
    Route("POST", "/api/v1/ack/batch", ack_batch, body=AckBatch, answer=list[AckResult], own=True),
]
