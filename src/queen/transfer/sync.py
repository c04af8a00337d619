"""The one way anything comes over: a set of partitions, as they are in one snapshot of the source.

A copy is this for every partition from its beginning, following it for those that changed. All of it happens in one
transaction of the target, and doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import asyncpg

from queen.sql import query
from queen.transfer.link import Link
from queen.transfer.model import HIGHEST, Change, Partition, formers, ids
from queen.transfer.pipe import pipe

if TYPE_CHECKING:
    from queen.db.migrate import Connection

BEGINNING: Final = datetime(1, 1, 2, tzinfo=UTC)
PIECE: Final = 20_000
MESSAGES: Final = (
    "partition_id seq pos id trace_id parent_id created_at is_encrypted transaction_id producer_sub payload"
)
_STATES: Final = (
    "partition_id queue_id consumer_group position_at position_id before skipped_at skipped_id lease_token "
    "lease_expires_at lease_acquired_at from_at from_id to_at to_id batch_count retry_count consumed batches "
    "last_consumed_at"
)
_DEAD_LETTERS: Final = "partition_id consumer_group message_id created_at gone error_message retry_count failed_at"
_TRACES: Final = "partition_id transaction_id message_id consumer_group event_type data created_at names"


async def sync(link: Link, source: Connection, changes: Sequence[Change], *, piece: int = PIECE) -> tuple[int, bool]:
    """Bring these partitions over, at most `piece` messages of each; how many came, and whether that was all.

    `source` is in a transaction with one snapshot, the target in one that the caller commits.
    """
    partitions = [change.partition for change in changes]
    places = await _trim(link, source, changes)
    count = await _messages(link, source, partitions, places, piece)
    await link.target.execute(query("transfer/target/raise_heads"), ids(partitions))
    if count >= piece:
        return count, False
    moved = {place["id"] for place in places if place["taken"]}
    await states(link, source, partitions)
    await _dead_letters(link, source, [c.partition for c in changes if c.dead_letters or c.partition.id in moved])
    if link.version == "v3":
        await _traces(link, source, [c.partition for c in changes if c.traces])
    return count, True


async def _trim(link: Link, source: Connection, changes: Sequence[Change]) -> list[asyncpg.Record]:
    """Take back what has to come again; where each partition stands then."""
    partitions = [change.partition for change in changes]
    rows = await source.fetch(query("transfer/firsts"), formers(partitions), ids(partitions))
    firsts = {row["id"]: (row["created_at"], row["message_id"]) for row in rows}
    again = [_again(change, firsts[change.partition.id][0]) for change in changes]
    return await link.target.fetch(
        query("transfer/target/trim"),
        ids(partitions),
        again,
        [firsts[each.id][0] for each in partitions],
        [firsts[each.id][1] for each in partitions],
    )


def _again(change: Change, first: datetime | None) -> datetime | None:
    """From when on messages come again: the earliest that was added, or that was removed from between others."""
    since = change.since
    if change.removed_since is not None and change.removed_until is not None and first is not None:
        between = max(change.removed_since, first)
        if change.removed_until >= first:
            since = between if since is None else min(since, between)
    return since


async def _messages(
    link: Link, source: Connection, partitions: Sequence[Partition], places: Sequence[asyncpg.Record], piece: int
) -> int:
    by_id = {place["id"]: place for place in places}
    ordered = [by_id[partition.id] for partition in partitions]
    total = await source.fetchval(
        query("transfer/count_after"), formers(partitions), [_after(place)[0] for place in ordered],
        [_after(place)[1] for place in ordered], piece,
    )  # fmt: skip
    if not total:
        return 0
    pos = await link.target.fetchval(query("transfer/target/reserve_pos"), total)
    arguments = (
        formers(partitions),
        ids(partitions),
        [place["last_seq"] for place in ordered],
        [_after(place)[0] for place in ordered],
        [_after(place)[1] for place in ordered],
        pos,
        piece,
    )
    statement = query(f"transfer/{link.version}/messages")
    try:
        async with link.target.transaction():
            return await pipe(source, statement, arguments, link.target, "messages", MESSAGES)
    except asyncpg.UniqueViolationError:
        count = await pipe(source, statement, arguments, link.target, "incoming_messages", MESSAGES)
        await link.target.execute(query("transfer/target/store_messages"))
        await link.target.execute(query("transfer/target/clear_incoming"))
        return count


def _after(place: asyncpg.Record) -> tuple[datetime, UUID]:
    """The position behind which a partition goes on."""
    if place["created_at"] is None:
        return BEGINNING, HIGHEST
    return place["created_at"], place["message_id"]


async def states(link: Link, source: Connection, partitions: Sequence[Partition]) -> None:
    """Cursors, skips and leases of all groups."""
    await _arrive(link, source, "states", await pairs(link, partitions), _STATES)
    await link.target.execute(query("transfer/target/store_states"))


async def pairs(link: Link, partitions: Sequence[Partition]) -> tuple[Any, ...]:
    """Every pair of these partitions and the groups their queues know, as four arrays."""
    rows = await link.target.fetch(query("transfer/target/pairs"), ids(partitions))
    return tuple([row[place] for row in rows] for place in range(4))


async def _dead_letters(link: Link, source: Connection, partitions: Sequence[Partition]) -> None:
    if partitions:
        await _arrive(link, source, "dead_letters", (formers(partitions), ids(partitions)), _DEAD_LETTERS)
        await link.target.execute(query("transfer/target/store_dead_letters"), ids(partitions))
        await link.target.execute(query("transfer/target/clear_incoming"))


async def _traces(link: Link, source: Connection, partitions: Sequence[Partition]) -> None:
    if partitions:
        await _arrive(link, source, "traces", (formers(partitions), ids(partitions)), _TRACES)
        await link.target.execute(query("transfer/target/store_traces"), ids(partitions))
        await link.target.execute(query("transfer/target/clear_incoming"))


async def _arrive(link: Link, source: Connection, name: str, arguments: tuple[Any, ...], columns: str) -> None:
    statement = query(f"transfer/{link.version}/{name}")
    await pipe(source, statement, arguments, link.target, f"incoming_{name}", columns)
