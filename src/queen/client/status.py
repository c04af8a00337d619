"""What queues, groups, dead letters and traces look like to a client."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct


class QueueStatus(Struct, frozen=True, kw_only=True):
    """A queue at a glance.

    `depth`: messages the slowest group has not passed, `processing` of them under a lease; `total`:
    messages kept.
    """

    name: str
    namespace: str
    task: str
    partitions: int
    depth: int
    total: int
    processing: int
    paused: bool
    created_at: datetime


class PartitionStatus(Struct, frozen=True, kw_only=True):
    """One partition of a queue."""

    name: str
    depth: int
    total: int
    processing: int
    newest_at: datetime | None


class GroupStatus(Struct, frozen=True, kw_only=True):
    """A consumer group on one queue. `lag`: messages it has not passed; `behind`: age of the oldest, in seconds."""

    group: str
    queue: str
    partitions: int
    lagging: int
    lag: int | None
    behind: float
    mode: str | None


class GroupPartition(Struct, frozen=True, kw_only=True):
    """How far a group is in one partition."""

    queue: str
    partition: str
    lag: int
    behind: float
    consumed: int
    leased: bool
    last_consumed_at: datetime | None


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message a group gave up on, with the reason. `payload` is JSON text."""

    id: int
    queue: str
    partition: str
    group: str
    message_id: UUID
    transaction_id: str
    error: str
    retry_count: int
    payload: str
    created_at: datetime
    failed_at: datetime

    @property
    def data(self) -> Any:
        """The payload as plain JSON values."""
        return msgspec.json.decode(self.payload)


class Note(Struct, frozen=True, kw_only=True):
    """One note a handler wrote about a message."""

    event: str
    data: Any
    group: str | None
    at: datetime


class Traced(Struct, frozen=True, kw_only=True):
    """One message of a trace, with the notes written about it."""

    id: UUID
    queue: str
    partition: str
    partition_id: int
    transaction_id: str
    parent_id: UUID | None
    created_at: datetime
    notes: Sequence[Note]
