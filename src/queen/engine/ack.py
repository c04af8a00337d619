"""ack: say what became of messages; renew and release their leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.batching import BatchSizes, Coalescer
from queen.engine.wake import Wake
from queen.model import Ack, Acked, LeaseAck, Renewal
from queen.sql import query

SMALL: Final = 64
MAX_ERROR: Final = 10_000
_BUSY_DELAYS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25)


class Acker:
    """Takes acknowledgements for an engine."""

    def __init__(self, database: Database, wake: Wake) -> None:
        self._database = database
        self._wake = wake
        self._leases: Coalescer[Sequence[LeaseAck], list[Acked]] = Coalescer(self._leases_together)
        self._messages: Coalescer[Sequence[Ack], list[Acked]] = Coalescer(self._messages_together)

    @property
    def sizes(self) -> list[BatchSizes]:
        """How the micro-batches went."""
        return [self._leases.sizes, self._messages.sizes]

    async def ack_leases(self, acks: Sequence[LeaseAck]) -> list[Acked]:
        """Everything up to a seq is done, for each lease; a lost lease changes nothing and says so."""
        if not acks:
            return []
        for delay in (*_BUSY_DELAYS, None):
            try:
                return await self._leases.submit(acks, weight=len(acks))
            except errors.PartitionBusy:
                if delay is not None:
                    await asyncio.sleep(delay)
        rows = await self._database.fetch(query("engine/ack_leases"), *_lease_arguments(acks), True)
        return [self._lease_acked(row) for row in sorted(rows, key=_entry)]

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """The outcome of single messages, decided once per call, partition and group."""
        if not acks:
            return []
        if len(acks) <= SMALL:
            for delay in (*_BUSY_DELAYS, None):
                try:
                    return await self._messages.submit(acks, weight=len(acks))
                except errors.PartitionBusy:
                    if delay is not None:
                        await asyncio.sleep(delay)
        rows = await self._database.fetch(query("engine/ack_messages"), *message_arguments([acks]), True, False)
        return [self._acked(row) for row in rows]

    async def renew(self, leases: Sequence[UUID], seconds: int) -> list[Renewal]:
        """Let leases live at least `seconds` longer; one that ran out is not revived."""
        if not 1 <= seconds <= 86_400:
            raise errors.InvalidRequest("seconds", "seconds must be between 1 and 86400")
        rows = await self._database.fetch(query("engine/renew"), list(leases), seconds)
        return [Renewal(renewed=row["renewed"], expires_at=row["expires_at"]) for row in rows]

    async def release(self, leases: Sequence[UUID], delay_ms: int = 0) -> list[int]:
        """Hand leases back, uncounted; returns how many partitions each held."""
        if not 0 <= delay_ms <= 86_400_000:
            raise errors.InvalidRequest("delay_ms", "delayMs must be between 0 and 86400000")
        rows = await self._database.fetch(query("engine/release"), list(leases), delay_ms)
        for row in rows:
            for queue_id in row["queue_ids"]:
                self._wake.ready(None, queue_id)
        return [row["released"] for row in rows]

    async def _leases_together(self, calls: Sequence[Sequence[LeaseAck]]) -> list[list[Acked] | Exception]:
        flat = [ack for call in calls for ack in call]
        if len({(ack.partition_id, ack.group) for ack in flat}) < len(flat):
            # The same lane twice in one statement: only one at a time can be decided.
            return [
                [
                    self._lease_acked(row)
                    for ack in call
                    for row in await self._database.fetch(query("engine/ack_leases"), *_lease_arguments([ack]), True)
                ]
                for call in calls
            ]
        found = await self._database.fetch(query("engine/ack_leases"), *_lease_arguments(flat), False)
        rows = iter(sorted(found, key=_entry))
        return [_unless_busy([next(rows) for _ in call], self._lease_acked) for call in calls]

    async def _messages_together(self, calls: Sequence[Sequence[Ack]]) -> list[list[Acked] | Exception]:
        rows = iter(await self._database.fetch(query("engine/ack_messages"), *message_arguments(calls), False, False))
        return [_unless_busy([next(rows) for _ in call], self._acked) for call in calls]

    def _lease_acked(self, row: Row) -> Acked:
        if row["released"]:
            self._wake.ready(None, row["queue_id"], announce=False)
        return Acked(verdict="acked" if row["status"] == "acked" else "lost", released=row["released"])

    def _acked(self, row: Row) -> Acked:
        if row["released"]:
            self._wake.ready(row["queue_name"], row["queue_id"], announce=False)
        return read_acked(row)

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        await self._leases.drain()
        await self._messages.drain()


def read_acked(row: Row) -> Acked:
    """The result in one row of queen.ack_messages."""
    return Acked(
        verdict=row["status"],
        released=row["released"],
        dead_letter=row["dead"],
        queue=row["queue_name"],
        partition=row["partition_name"],
    )


def _entry(row: Row) -> int:
    return int(row["entry"])


def _unless_busy(rows: list[Row], read: Callable[[Row], Acked]) -> list[Acked] | Exception:
    if any(row["status"] == "busy" for row in rows):
        return errors.PartitionBusy("a partition is held by another transaction; try again")
    return [read(row) for row in rows]


def _lease_arguments(acks: Sequence[LeaseAck]) -> tuple[Any, ...]:
    return (
        [ack.partition_id for ack in acks],
        [ack.group for ack in acks],
        [ack.lease_id for ack in acks],
        [ack.up_to for ack in acks],
    )


def message_arguments(calls: Sequence[Sequence[Ack]]) -> tuple[Any, ...]:
    """The arrays of queen.ack_messages for one or more calls."""
    flat = [(number, ack) for number, call in enumerate(calls, 1) for ack in call]
    return (
        [number for number, _ in flat],
        [ack.partition_id for _, ack in flat],
        [ack.group for _, ack in flat],
        [ack.lease_id for _, ack in flat],
        [ack.transaction_id for _, ack in flat],
        [ack.seq for _, ack in flat],
        [ack.status for _, ack in flat],
        [_error(ack.error) for _, ack in flat],
    )


def _error(text: str | None) -> str | None:
    return text if text is None else text.replace("\0", "\N{SYMBOL FOR NULL}")[:MAX_ERROR]
