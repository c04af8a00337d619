"""Dead letters: look at them, push them again, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.encryption import KeyRing
from queen.engine.reading import Page, Reader, Window
from queen.engine.wake import Wake
from queen.model import Redriven
from queen.sql import query


class Selection(Struct, frozen=True, kw_only=True):
    """Which dead letters: every filter given must match."""

    ids: Sequence[int] | None = None
    queue: str | None = None
    group: str | None = None
    error_contains: str | None = None
    before: datetime | None = None

    def arguments(self) -> tuple[object, ...]:
        """The filters as parameters."""
        return (
            list(self.ids) if self.ids is not None else None,
            self.queue,
            self.group,
            self.error_contains,
            self.before,
        )


class Wanted(Struct, frozen=True, kw_only=True):
    """Which dead letters to list: every filter given must match. `error` is a normalised one (see `groups`)."""

    queue: str | None = None
    group: str | None = None
    partition: str | None = None
    error_contains: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    error: str | None = None
    redriven: bool = False

    def arguments(self) -> tuple[object, ...]:
        """The filters as parameters."""
        return (
            self.queue,
            self.group,
            self.partition,
            self.error_contains,
            self.since,
            self.until,
            self.error,
            self.redriven,
        )


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message a group gave up on, as it was. `payload` is JSON text, sealed when `is_encrypted`."""

    id: int
    queue: str
    partition: str
    partition_id: int
    group: str
    seq: int
    message_id: UUID
    transaction_id: str
    trace_id: UUID | None
    parent_id: UUID | None
    payload: str
    is_encrypted: bool
    producer_sub: str | None
    error_message: str
    retry_count: int
    evicted: bool
    created_at: datetime
    failed_at: datetime
    redriven_at: datetime | None
    redriven_as: UUID | None


class ErrorGroup(Struct, frozen=True, kw_only=True):
    """Dead letters whose errors differ only in ids, numbers and quoted parts; `newest` of them says `sample`."""

    error: str
    dead_letters: int
    first_failed_at: datetime
    last_failed_at: datetime
    queues: list[str]
    consumer_groups: list[str]
    newest: int
    sample: str


class DeadLetters:
    """Dead letters for an engine."""

    def __init__(self, database: Database, keys: KeyRing, wake: Wake) -> None:
        self._database = database
        self._reader = Reader(database)
        self._keys = keys
        self._wake = wake

    async def redrive(
        self,
        selection: Selection,
        *,
        to_queue: str | None = None,
        to_all: bool = False,
        payload: str | None = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> Redriven:
        """Push dead letters again as new messages: for the group that failed, for `to_all`, or to another queue."""
        if payload is not None and (selection.ids is None or len(selection.ids) != 1):
            raise errors.InvalidRequest("payload", "payload may be given with a single id only")
        if not 1 <= limit <= 100_000:
            raise errors.InvalidRequest("limit", "limit must be between 1 and 100000")
        row = await self._database.fetchrow(
            query("engine/redrive"), *selection.arguments(), to_queue, payload, limit, dry_run, to_all
        )
        for queue_id in row["queue_ids"]:
            self._wake.ready(None, queue_id)
        return Redriven(matched=row["matched"], redriven=row["redriven"])

    async def purge(self, selection: Selection, *, dry_run: bool = False) -> int:
        """Remove dead letters; returns how many."""
        row = await self._database.fetchrow(query("engine/purge_dead_letters"), *selection.arguments(), dry_run)
        return int(row["purged"])

    async def browse(self, wanted: Wanted, window: Window) -> tuple[Page[DeadLetter], int]:
        """Dead letters that match, newest first, and how many match in all. Payloads stay sealed."""
        (after,) = window.position(int)
        filters = wanted.arguments()
        rows, totals = await self._reader.fetch_all(
            ("dead_letters", *filters, window.limit + 1, window.offset, after), ("count_dead_letters", *filters)
        )
        return window.page([_read(row) for row in rows], [(row["id"],) for row in rows]), int(totals[0]["total"])

    async def get(self, number: int) -> DeadLetter | None:
        """One dead letter, its payload decrypted, or None. Raises EncryptionUnavailable without a fitting key."""
        row = await self._reader.first("dead_letter", number)
        if row is None:
            return None
        return _read(row, self._keys.open(row["payload"]) if row["is_encrypted"] else None)

    async def groups(self, *, queue: str | None = None, group: str | None = None, limit: int = 100) -> list[ErrorGroup]:
        """Dead letters not yet redriven, grouped by what their errors have in common, the most frequent first."""
        rows = await self._reader.fetch("dead_letter_groups", queue, group, limit)
        return [ErrorGroup(**{name: row[name] for name in ErrorGroup.__struct_fields__}) for row in rows]


def _read(row: Row, payload: str | None = None) -> DeadLetter:
    return DeadLetter(
        queue=row["queue_name"],
        partition=row["partition_name"],
        group=row["consumer_group"],
        payload=row["payload"] if payload is None else payload,
        **{
            name: row[name]
            for name in DeadLetter.__struct_fields__
            if name not in ("queue", "partition", "group", "payload")
        },
    )
