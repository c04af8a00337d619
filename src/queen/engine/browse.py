"""browse: look at messages without taking them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.encryption import KeyRing
from queen.engine.reading import Page, Reader, Window
from queen.engine.wake import Wake
from queen.model import MAX_NAME, QUEUE_MODE
from queen.sql import query

Status = Literal["pending", "processing", "completed", "dead_letter"]

STATUSES: Final[tuple[Status, ...]] = ("pending", "processing", "completed", "dead_letter")
RECENT: Final = timedelta(hours=1)
_LONG_AGO: Final = datetime(1, 1, 2, tzinfo=UTC)


class Filter(Struct, frozen=True, kw_only=True):
    """Which messages: every filter given must match. `since` is one hour ago unless given."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    status: Status | None = None
    since: datetime | None = None
    until: datetime | None = None


class Listed(Struct, frozen=True, kw_only=True):
    """A message in a list: everything but its payload.

    `queue_status` is where it stands in queue mode, None when nobody reads the queue that way;
    `consumed_by` of `total_groups` named groups have passed it.
    """

    queue: str
    partition: str
    partition_id: int
    seq: int
    id: UUID
    transaction_id: str
    namespace: str
    task: str
    priority: int
    status: Status
    queue_status: Status | None
    consumed_by: int
    total_groups: int
    trace_id: UUID | None
    producer_sub: str | None
    created_at: datetime
    lease_expires_at: datetime | None


class Readers(Struct, frozen=True):
    """Who reads some queues: queue mode, and how many named groups."""

    queue_mode: bool
    named: int

    @property
    def kind(self) -> Literal["queue", "bus", "hybrid", "none"]:
        """The one word for it."""
        if self.queue_mode:
            return "hybrid" if self.named else "queue"
        return "bus" if self.named else "none"


class GroupView(Struct, frozen=True, kw_only=True):
    """How one group stands to one message."""

    name: str
    consumed: bool
    lease_expires_at: datetime | None


class Detail(Struct, frozen=True, kw_only=True):
    """One message with its payload (JSON text; `broken` says why it could not be decrypted) and its groups."""

    listed: Listed
    parent_id: UUID | None
    payload: str
    is_encrypted: bool
    broken: str | None
    error_message: str | None
    retry_count: int
    lease_time: int
    retry_limit: int
    retry_delay: int
    ttl: int
    groups: list[GroupView]


class Delivery(Struct, frozen=True, kw_only=True):
    """One batch a message was handed out in; `ended_at` None and outcome `leased` while it is out."""

    group: str
    lease_id: UUID | None
    batch_from: int
    batch_to: int
    leased_at: datetime
    ended_at: datetime | None
    outcome: str
    retry_count: int
    failed: int


class Retried(Struct, frozen=True, kw_only=True):
    """The message that was pushed in place of another."""

    id: UUID
    queue: str
    seq: int


class Browser:
    """Messages for people to look at, push again, or put aside."""

    def __init__(self, database: Database, keys: KeyRing, wake: Wake) -> None:
        self._database = database
        self._reader = Reader(database)
        self._keys = keys
        self._wake = wake

    async def browse(self, wanted: Filter, window: Window) -> tuple[Page[Listed], Readers]:
        """Messages newest first, and who reads the queues asked about."""
        _check(wanted.queue, wanted.partition, wanted.namespace, wanted.task)
        since = wanted.since or datetime.now(UTC) - RECENT
        names = (wanted.queue, wanted.namespace, wanted.task)
        rows, modes = await self._reader.fetch_all(
            (
                "browse_messages",
                wanted.queue,
                wanted.partition,
                wanted.namespace,
                wanted.task,
                wanted.status,
                max(since, _LONG_AGO),
                wanted.until,
                window.limit + window.offset + 1,
                *window.position(datetime, int, int),
            ),
            ("modes", *names),
        )
        rows = rows[window.offset :]
        place = [(row["created_at"], row["partition_id"], row["seq"]) for row in rows]
        readers = Readers(modes[0]["queue_mode"], modes[0]["named"])
        return window.page([read_listed(row) for row in rows], place), readers

    async def message(self, partition_id: int, transaction_id: str) -> Detail | None:
        """One message, or None."""
        _check(transaction_id)
        row = await self._reader.first("message", partition_id, transaction_id)
        if row is None:
            return None
        groups = await self._reader.fetch("message_groups", partition_id, row["seq"])
        payload, broken = row["payload"], None
        if row["is_encrypted"]:
            try:
                payload = self._keys.open(payload)
            except errors.EncryptionUnavailable as error:
                broken = error.message
        return Detail(
            listed=_seen(row, groups),
            payload=payload,
            broken=broken,
            retry_count=row["retry_count"] or max((group["retry_count"] for group in groups), default=0),
            groups=[
                GroupView(
                    name=group["consumer_group"], consumed=group["consumed"], lease_expires_at=group["lease_expires_at"]
                )
                for group in groups
            ],
            **{
                name: row[name]
                for name in (
                    "parent_id", "is_encrypted", "error_message", "lease_time", "retry_limit", "retry_delay", "ttl"
                )
            },
        )  # fmt: skip

    async def deliveries(self, partition_id: int, transaction_id: str) -> list[Delivery] | None:
        """Every batch a message was handed out in, oldest first; None when there is no such message."""
        _check(transaction_id)
        row = await self._reader.first("message", partition_id, transaction_id)
        if row is None:
            return None
        return [
            read_delivery(each) for each in await self._reader.fetch("message_deliveries", partition_id, row["seq"])
        ]

    async def retry(self, partition_id: int, transaction_id: str) -> Retried | None:
        """Push a message again as a new one, with the old one as its parent; None when there is none."""
        _check(transaction_id)
        rows = await self._database.fetch(query("admin/retry_message"), partition_id, transaction_id)
        if not rows:
            return None
        row = rows[0]
        if row["woken"]:
            self._wake.ready(row["queue_name"], row["queue_id"])
        return Retried(id=row["message_id"], queue=row["queue_name"], seq=row["seq"])

    async def bury(
        self, partition_id: int, transaction_id: str, *, group: str = QUEUE_MODE, error: str = ""
    ) -> int | None:
        """Move a message to the dead letters of a group; returns the dead letter's number, None without a message."""
        _check(transaction_id, error)
        if not group or len(group.encode()) > MAX_NAME or "\0" in group:
            raise errors.InvalidRequest("consumer_group", f"consumerGroup must be a name of 1 to {MAX_NAME} bytes")
        row = await self._database.fetchrow(query("admin/bury_message"), partition_id, transaction_id, group, error)
        found: int | None = row["dead_letter_id"]
        return found


def _check(*texts: str | None) -> None:
    for text in texts:
        if text is not None and "\0" in text:
            raise errors.InvalidRequest("filter", "names must not contain NUL")


def read_listed(row: Row) -> Listed:
    """A message in a list from its row."""
    return Listed(
        queue=row["queue_name"],
        partition=row["partition_name"],
        id=row["message_id"],
        **{
            name: row[name]
            for name in (
                "partition_id", "seq", "transaction_id", "namespace", "task", "priority", "status", "queue_status",
                "consumed_by", "total_groups", "trace_id", "producer_sub", "created_at", "lease_expires_at",
            )
        },
    )  # fmt: skip


def _seen(row: Row, groups: list[Row]) -> Listed:
    named = [group for group in groups if group["consumer_group"] != QUEUE_MODE]
    mode = [group for group in groups if group["consumer_group"] == QUEUE_MODE]
    expiries = [group["lease_expires_at"] for group in groups if group["lease_expires_at"]]
    return Listed(
        queue=row["queue_name"],
        partition=row["partition_name"],
        id=row["message_id"],
        status="dead_letter" if row["dead_letter_id"] else _standing(groups),
        queue_status=_standing(mode) if mode else None,
        consumed_by=sum(group["consumed"] for group in named),
        total_groups=len(named),
        lease_expires_at=max(expiries, default=None),
        **{
            name: row[name]
            for name in (
                "partition_id", "seq", "transaction_id", "namespace", "task", "priority", "trace_id", "producer_sub",
                "created_at",
            )
        },
    )  # fmt: skip


def _standing(groups: list[Row]) -> Status:
    if groups and all(group["consumed"] for group in groups):
        return "completed"
    return "processing" if any(group["lease_expires_at"] for group in groups) else "pending"


def read_delivery(row: Row) -> Delivery:
    """A delivery from its row."""
    return Delivery(
        group=row["consumer_group"],
        **{name: row[name] for name in Delivery.__struct_fields__ if name != "group"},
    )
