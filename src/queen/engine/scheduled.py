"""Scheduled messages: what waits for its time, and taking it off the schedule."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.encryption import KeyRing
from queen.engine.reading import Page, Reader, Window
from queen.sql import query


class Scheduled(Struct, frozen=True, kw_only=True):
    """A message that waits for its time. The payload is JSON text."""

    id: UUID
    queue: str
    partition: str
    deliver_at: datetime
    transaction_id: str
    trace_id: UUID | None
    parent_id: UUID | None
    payload: str
    producer_sub: str | None
    created_at: datetime


class Schedule:
    """Scheduled messages of a database."""

    def __init__(self, database: Database, keys: KeyRing) -> None:
        self._database = database
        self._reader = Reader(database)
        self._keys = keys

    async def waiting(self, queue: str | None, window: Window) -> Page[Scheduled]:
        """Waiting messages, the next one due first."""
        at, last = window.position(datetime, UUID)
        rows = await self._reader.fetch("scheduled", queue, window.limit + window.offset + 1, at, last)
        rows = rows[window.offset :]
        return window.page([self._read(row) for row in rows], [(row["deliver_at"], row["id"]) for row in rows])

    async def cancel(self, message_id: UUID) -> bool:
        """Take a message off the schedule; tells whether it was still on it."""
        return bool(await self._database.fetch(query("admin/cancel_scheduled"), message_id))

    def _read(self, row: Row) -> Scheduled:
        payload = row["payload"]
        if row["is_encrypted"]:
            try:
                payload = self._keys.open(payload)
            except errors.EncryptionUnavailable:
                payload = row["payload"]
        return Scheduled(
            queue=row["queue_name"],
            partition=row["partition_name"],
            payload=payload,
            **{
                name: row[name]
                for name in (
                    "id", "deliver_at", "transaction_id", "trace_id", "parent_id", "producer_sub", "created_at"
                )
            },
        )  # fmt: skip
