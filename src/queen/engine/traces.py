"""Traces: events noted about messages, by name; and every message of a trace id."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.browse import Delivery, read_delivery
from queen.engine.encryption import KeyRing
from queen.engine.reading import Page, Reader, Window
from queen.model import MAX_NAME
from queen.sql import query

MAX_EVENTS: Final = 1000
MAX_NAMES: Final = 100


class Trace(Struct, frozen=True, kw_only=True):
    """One event. `data` is JSON text."""

    id: int
    partition_id: int
    transaction_id: str
    message_id: UUID
    group: str | None
    event_type: str
    data: str
    created_at: datetime
    names: list[str]


class NamedTrace(Struct, frozen=True, kw_only=True):
    """One event with the message it belongs to; the payload is JSON text, None when the message is gone."""

    trace: Trace
    queue: str
    partition: str
    payload: str | None


class TraceName(Struct, frozen=True, kw_only=True):
    """A name, how many events it has, on how many messages, and when the last one was noted."""

    name: str
    traces: int
    messages: int
    last_seen: datetime


class TracedMessage(Struct, frozen=True, kw_only=True):
    """A message of a trace id with its deliveries; the payload is JSON text."""

    queue: str
    partition: str
    partition_id: int
    seq: int
    id: UUID
    transaction_id: str
    parent_id: UUID | None
    producer_sub: str | None
    payload: str
    created_at: datetime
    deliveries: list[Delivery]


class Traces:
    """Traces of a database."""

    def __init__(self, database: Database, keys: KeyRing) -> None:
        self._database = database
        self._reader = Reader(database)
        self._keys = keys

    async def record(
        self,
        partition_id: int,
        transaction_id: str,
        data: str,
        *,
        group: str | None = None,
        event_type: str = "info",
        names: Sequence[str] = (),
    ) -> int:
        """Note an event; returns its number. Raises MessageNotFound."""
        if len(names) > MAX_NAMES:
            raise errors.InvalidRequest("trace_names", f"traceNames may have at most {MAX_NAMES} names")
        for name in (*names, event_type):
            if not name or len(name.encode()) > MAX_NAME or "\0" in name:
                raise errors.InvalidRequest(
                    "trace_names", f"traceNames and eventType must be names of 1 to {MAX_NAME} bytes"
                )
        if "\0" in transaction_id or "\0" in (group or ""):
            raise errors.InvalidRequest("transaction_id", "transactionId and consumerGroup must not contain NUL")
        row = await self._database.fetchrow(
            query("admin/record_trace"), partition_id, transaction_id, group, event_type, data, list(names)
        )
        if row["trace_id"] is None:
            raise errors.MessageNotFound("Message not found")
        return int(row["trace_id"])

    async def of_message(self, partition_id: int, transaction_id: str) -> list[Trace]:
        """The events of one message, oldest first."""
        rows = await self._reader.fetch("traces_of_message", partition_id, transaction_id, MAX_EVENTS)
        return [_trace(row) for row in rows]

    async def by_name(self, name: str, window: Window) -> tuple[Page[NamedTrace], int]:
        """The events noted under a name, oldest first, and how many there are in all."""
        (after,) = window.position(int)
        rows, totals = await self._reader.fetch_all(
            ("traces_by_name", name, window.limit + 1, window.offset, after), ("count_traces_by_name", name)
        )
        found = [
            NamedTrace(
                trace=_trace(row), queue=row["queue_name"], partition=row["partition_name"], payload=self._open(row)
            )
            for row in rows
        ]
        return window.page(found, [(row["id"],) for row in rows]), int(totals[0]["total"])

    async def names(self, window: Window) -> tuple[list[TraceName], int]:
        """The names in use, the most recent first, and how many there are in all."""
        rows = await self._reader.fetch("trace_names", window.limit, window.offset)
        found = [
            TraceName(
                name=row["trace_name"], traces=row["traces"], messages=row["messages"], last_seen=row["last_seen"]
            )
            for row in rows
        ]
        return found, int(rows[0]["total"]) if rows else 0

    async def by_id(self, trace_id: UUID, limit: int = MAX_EVENTS) -> list[TracedMessage]:
        """Every message of a trace id over all queues, in time order, with its deliveries."""
        rows = await self._reader.fetch("trace_messages", trace_id, limit)
        places = [(row["partition_id"], row["seq"]) for row in rows]
        story: dict[tuple[int, int], list[Delivery]] = {place: [] for place in places}
        for row in await self._reader.fetch("trace_deliveries", [p for p, _ in places], [s for _, s in places]):
            story[row["partition_id"], row["seq"]].append(read_delivery(row))
        return [
            TracedMessage(
                queue=row["queue_name"],
                partition=row["partition_name"],
                id=row["message_id"],
                payload=self._open(row) or "null",
                deliveries=story[row["partition_id"], row["seq"]],
                **{
                    name: row[name]
                    for name in ("partition_id", "seq", "transaction_id", "parent_id", "producer_sub", "created_at")
                },
            )
            for row in rows
        ]

    def _open(self, row: Row) -> str | None:
        payload: str | None = row["payload"]
        if payload is None or not row["is_encrypted"]:
            return payload
        try:
            return self._keys.open(payload)
        except errors.EncryptionUnavailable:
            return payload


def _trace(row: Row) -> Trace:
    return Trace(
        group=row["consumer_group"], **{name: row[name] for name in Trace.__struct_fields__ if name != "group"}
    )
