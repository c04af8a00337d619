"""What the engine takes and gives. Payloads are JSON text: they pass through undecoded."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

QUEUE_MODE: Final = "__QUEUE_MODE__"
DEFAULT_PARTITION: Final = "Default"
MAX_NAME: Final = 512
MAX_TRANSACTION_ID: Final = 255

PushStatus = Literal["queued", "duplicate", "scheduled"]
AckStatus = Literal["completed", "failed", "dlq", "retry"]
AckVerdict = Literal["acked", "noop", "lost", "unknown", "committed", "invalid"]
Mode = Literal["all", "new", "timestamp"]
Standing = Literal["scheduled", "waiting", "running", "done", "dead", "unknown"]


class NewMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A message to push. `payload` is JSON text."""

    queue: str
    payload: str
    partition: str = DEFAULT_PARTITION
    transaction_id: str | None = None
    trace_id: UUID | None = None
    parent_id: UUID | None = None
    deliver_at: datetime | None = None
    producer_sub: str | None = None
    id: UUID | None = None


class Pushed(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one pushed message. `seq` is None when it was scheduled."""

    status: PushStatus
    id: UUID
    queue: str
    partition: str
    partition_id: int
    transaction_id: str
    seq: int | None
    trace_id: UUID | None = None
    depth: int | None = None
    remaining: int | None = None


class Message(Struct, frozen=True, gc=False):
    """A message as it was handed out. `payload` is JSON text."""

    queue: str
    partition: str
    partition_id: int
    group: str
    seq: int
    id: UUID
    transaction_id: str
    payload: str
    created_at: datetime
    trace_id: UUID | None = None
    parent_id: UUID | None = None
    producer_sub: str | None = None
    retry_count: int = 0
    delivery_count: int = 0
    lease_id: UUID | None = None
    lease_expires_at: datetime | None = None
    broken: str | None = None


class PopRequest(Struct, frozen=True, kw_only=True, gc=False):
    """What a consumer asks for. `wait` is the long poll's limit in seconds; 0 answers at once.

    `prefetch`: the messages will be worked on one by one, so that only the first counts as delivered from the start.
    `max_bytes`: their payloads have at most so many bytes of JSON together, unless the first alone has more.
    """

    queue: str
    group: str = QUEUE_MODE
    batch: int = 1
    partitions: int = 1
    partition: str | None = None
    wait: float = 0.0
    lease_seconds: int | None = None
    auto_ack: bool = False
    mode: Mode = "all"
    start_at: datetime | None = None
    prefetch: bool = False
    max_bytes: int | None = None


class Ack(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one message. Without a lease it may only move the cursor forward."""

    partition_id: int
    transaction_id: str
    group: str = QUEUE_MODE
    lease_id: UUID | None = None
    status: AckStatus = "completed"
    error: str | None = None
    seq: int | None = None


class Acked(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one acknowledgement."""

    verdict: AckVerdict
    released: bool = False
    dead_letter: bool = False
    queue: str | None = None
    partition: str | None = None

    @property
    def ok(self) -> bool:
        """True when the acknowledgement counts (a repeated one does too)."""
        return self.verdict in ("acked", "noop")


class LeaseAck(Struct, frozen=True, kw_only=True, gc=False):
    """Everything up to `up_to` of one leased partition is done: the fast form of an acknowledgement."""

    partition_id: int
    lease_id: UUID
    up_to: int
    group: str = QUEUE_MODE


class Renewal(Struct, frozen=True, kw_only=True):
    """How far a lease was extended: on how many partitions, and until when at the earliest."""

    renewed: int
    expires_at: datetime | None


class SeekResult(Struct, frozen=True, kw_only=True):
    """What a seek did, or with `dry_run` would do."""

    partitions: int
    redelivered: int
    skipped: int


class Redriven(Struct, frozen=True, kw_only=True):
    """How many dead letters matched, and how many were pushed again."""

    matched: int
    redriven: int


class QueueConfig(Struct, frozen=True, kw_only=True):
    """A queue and its configuration."""

    id: int
    name: str
    namespace: str
    task: str
    priority: int
    lease_time: int
    retry_limit: int
    retry_delay: int
    max_deliveries: int
    partial_failure: Literal["dlq", "retry"]
    delayed_processing: int
    window_buffer: int
    retention_enabled: bool
    retention_seconds: int
    completed_retention_seconds: int
    max_wait_time_seconds: int
    encryption_enabled: bool
    max_queue_size: int
    delivery_log: bool
    archive: bool
    paused: bool
    ttl: int
    dead_letter_queue: bool
    dlq_after_max_retries: bool
    created_at: datetime
