"""The body of a pop's answer, written as text: what the messages of a partition have in common is put together once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Raw

from queen.model import Message
from queen.server.wire import Wire, micros, partition_id, quoted

_NO_ORIGIN: Final = '"traceId":null,"producerSub":null'


class PoppedMessage(Wire, omit_defaults=True):
    """A message as a consumer gets it. Those that cannot be decrypted say why in `broken`."""

    id: UUID
    transaction_id: str
    trace_id: UUID | None
    data: Raw
    producer_sub: str | None
    created_at: str
    partition_id: str
    partition: str
    lease_id: str
    consumer_group: str
    queue: str
    seq: int
    retry_count: int
    delivery_count: int
    parent_id: UUID | None = None
    broken: str | None = None


class PopAnswer(Wire, omit_defaults=True):
    """Messages under a lease. The names above them are those of the first claimed partition."""

    success: bool
    queue: str
    partition: str
    partition_id: str
    lease_id: str
    consumer_group: str
    messages: list[PoppedMessage]
    partitions_claimed: int | None = None
    lease_expires_at: str | None = None


def popped_body(found: Sequence[Message], claimed: int | None) -> bytes:
    """A `PopAnswer` with messages, at least one, those of a partition in a row; `claimed` partitions unless None."""
    first = found[0]
    shared = _shared(first)
    partition, partition_part = first.partition_id, _partition_part(first, shared)
    created_at, created = first.created_at, micros(first.created_at)
    parts = []
    for message in found:
        if message.partition_id != partition:
            partition, partition_part = message.partition_id, _partition_part(message, shared)
        if message.created_at != created_at:
            created_at, created = message.created_at, micros(message.created_at)
        plain = message.trace_id is message.parent_id is None and message.producer_sub is message.broken is None
        parts.append(
            f'{{"id":"{message.id}","transactionId":{quoted(message.transaction_id)},"data":{message.payload},'
            f'"createdAt":"{created}","seq":{message.seq},{_NO_ORIGIN if plain else _origin(message)}{partition_part}'
        )
    head = f'{{"success":true,"partition":{quoted(first.partition)},"partitionId":"{partition_id(first.partition_id)}"'
    if claimed is not None:
        head += f',"partitionsClaimed":{claimed}'
    if first.lease_expires_at is not None:
        head += f',"leaseExpiresAt":"{micros(first.lease_expires_at)}"'
    return f'{head}{shared},"messages":[{",".join(parts)}]}}'.encode()


def _shared(message: Message) -> str:
    """What every message of the answer has in common, and the answer itself too."""
    return (
        f',"queue":{quoted(message.queue)},"leaseId":"{message.lease_id or ""}","consumerGroup":{quoted(message.group)}'
    )


def _partition_part(message: Message, shared: str) -> str:
    return (
        f',"partitionId":"{partition_id(message.partition_id)}","partition":{quoted(message.partition)}'
        f',"retryCount":{message.retry_count},"deliveryCount":{message.delivery_count}{shared}}}'
    )


def _origin(message: Message) -> str:
    sub = "null" if message.producer_sub is None else quoted(message.producer_sub)
    text = f'"traceId":{_id(message.trace_id)},"producerSub":{sub}'
    if message.parent_id is not None:
        text += f',"parentId":{_id(message.parent_id)}'
    return text if message.broken is None else f'{text},"broken":{quoted(message.broken)}'


def _id(found: UUID | None) -> str:
    return "null" if found is None else f'"{found}"'
