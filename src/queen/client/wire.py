"""The JSON of the HTTP contract as a client sees it. Payloads pass through undecoded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from msgspec import Raw, Struct

from queen.client.errors import TransportError
from queen.ids import Kind, as_callers, from_wire, to_wire
from queen.model import Ack, Acked, AckVerdict, Message, NewMessage, Pushed, PushStatus


class Wire(Struct, rename="camel", kw_only=True):
    """The base of every JSON object."""


class Refusal(Wire):
    """The body of every error."""

    error: str = ""
    code: str | None = None
    details: dict[str, Any] | None = None


class PushItem(Wire, omit_defaults=True):
    """A message to push."""

    queue: str
    partition: str
    payload: Raw
    transaction_id: str
    trace_id: UUID | None = None
    parent_id: UUID | None = None
    deliver_at: datetime | None = None

    @classmethod
    def of(cls, item: NewMessage) -> PushItem:
        """The item of a message; one without a transaction id gets its id, so that it is stored once."""
        assert item.id is not None, "a message gets its id before the first attempt to store it"
        return cls(
            queue=item.queue,
            partition=item.partition,
            payload=Raw(item.payload.encode()),
            transaction_id=as_callers(item.id) if item.transaction_id is None else item.transaction_id,
            trace_id=item.trace_id,
            parent_id=item.parent_id,
            deliver_at=item.deliver_at,
        )


class PushResult(Struct, kw_only=True):
    """What became of one message."""

    status: Literal["queued", "duplicate", "scheduled", "buffered", "failed"]
    message_id: UUID | None = None
    partition_id: str | None = None
    seq: int | None = None
    error: str | None = None
    queueDepth: int | None = None  # noqa: N815 - the contract mixes both
    remainingCapacity: int | None = None  # noqa: N815

    def pushed(self, item: NewMessage, *, again: bool) -> Pushed:
        """The result as a client gives it; what an earlier attempt had stored is no duplicate."""
        assert item.id is not None
        status: PushStatus = "scheduled" if self.status == "scheduled" else "queued"
        if self.status == "duplicate" and not (again and item.transaction_id is None):
            status = "duplicate"
        return Pushed(
            status=status,
            id=self.message_id or item.id,
            queue=item.queue,
            partition=item.partition,
            partition_id=number("partition", self.partition_id) if self.partition_id else 0,
            transaction_id=item.transaction_id or as_callers(item.id),
            seq=self.seq,
            trace_id=item.trace_id,
            depth=self.queueDepth,
            remaining=self.remainingCapacity,
        )


class Popped(Wire):
    """A message as it was handed out."""

    id: UUID
    transaction_id: str
    data: Raw
    created_at: datetime
    partition_id: str
    partition: str
    lease_id: str = ""
    consumer_group: str = ""
    queue: str | None = None
    seq: int = 0
    trace_id: UUID | None = None
    parent_id: UUID | None = None
    producer_sub: str | None = None
    retry_count: int = 0
    delivery_count: int = 0
    broken: str | None = None


class PopAnswer(Wire):
    """What a pop hands out."""

    messages: list[Popped]
    queue: str = ""

    def found(self) -> list[Message]:
        """The messages as a client gives them."""
        numbers: dict[str, int] = {}
        for one in self.messages:
            if one.partition_id not in numbers:
                numbers[one.partition_id] = number("partition", one.partition_id)
        return [
            Message(
                queue=one.queue or self.queue,
                partition=one.partition,
                partition_id=numbers[one.partition_id],
                group=one.consumer_group,
                seq=one.seq,
                id=one.id,
                transaction_id=one.transaction_id,
                payload=bytes(one.data).decode(),
                created_at=one.created_at,
                trace_id=one.trace_id,
                parent_id=one.parent_id,
                producer_sub=one.producer_sub,
                retry_count=one.retry_count,
                delivery_count=one.delivery_count,
                lease_id=UUID(one.lease_id) if one.lease_id else None,
                broken=one.broken,
            )
            for one in self.messages
        ]


class AckResult(Wire):
    """What became of one acknowledgement."""

    success: bool
    error: str | None = None
    queue_name: str | None = None
    partition_name: str | None = None
    lease_released: bool = False
    dlq: bool = False
    noop: bool = False

    def acked(self) -> Acked:
        """The result as a client gives it."""
        return Acked(
            verdict="noop" if self.noop else "acked" if self.success else verdict(self.error or ""),
            released=self.lease_released,
            dead_letter=self.dlq,
            queue=self.queue_name,
            partition=self.partition_name,
        )


class Extended(Wire):
    """How far a lease was extended."""

    renewed: int = 0
    new_expires_at: datetime | None = None


class Operation(Wire):
    """The result of one operation of a transaction."""

    type: str
    message_id: UUID | None = None
    transaction_id: str | None = None
    partition_id: str | None = None
    status: PushStatus | None = None
    seq: int | None = None
    success: bool = True
    error: str | None = None
    dlq: bool = False


class TransactionAnswer(Wire):
    """What became of a transaction."""

    success: bool
    results: list[Operation]
    error: str | None = None
    code: str | None = None


def verdict(text: str) -> AckVerdict:
    """What a refused acknowledgement's text means."""
    words = text.lower()
    if "lease" in words:
        return "lost"
    if "not found" in words:
        return "unknown"
    return "committed" if "committed" in words else "invalid"


def ack_item(ack: Ack) -> Mapping[str, Any]:
    """One acknowledgement as the contract writes it."""
    return {
        "transactionId": ack.transaction_id,
        "partitionId": to_wire("partition", ack.partition_id),
        "leaseId": None if ack.lease_id is None else str(ack.lease_id),
        "status": ack.status,
        "error": ack.error,
        "consumerGroup": ack.group,
    }


def number(kind: Kind, text: str) -> int:
    """The number behind an id of the broker's."""
    found = from_wire(kind, text)
    if found is None:
        raise TransportError(f"the broker gave a {kind} id that is none of Queen's: {text!r}")
    return found
