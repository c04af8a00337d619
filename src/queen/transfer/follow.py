"""Copy everything, then apply what changed, again and again: both while the source is live."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import asyncpg

from queen.sql import query
from queen.transfer.errors import TransferStopped
from queen.transfer.link import Link, exclusive
from queen.transfer.model import Change, Partition, Progress
from queen.transfer.pipe import pipe
from queen.transfer.sync import PIECE, sync

if TYPE_CHECKING:
    from queen.db.migrate import Connection

ROUND: Final = 20_000
TOGETHER: Final = 200
SHRINKS: Final = 0.7
_PARTITIONS: Final = "former_id queue_name name created_at last_activity expected"
_GROUPS: Final = "queue_name consumer_group mode start_at created_at"


@dataclass(slots=True)
class Applied:
    """What a round of following brought."""

    entries: int = 0
    messages: int = 0
    partitions: set[Partition] | None = None


@asynccontextmanager
async def snapshot(connection: Connection) -> AsyncIterator[Connection]:
    """One moment of the source, for as long as the block lasts."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        yield connection


@asynccontextmanager
async def disk_full_is_told() -> AsyncIterator[None]:
    """Say what to do when the target has no room left; what was committed stays."""
    try:
        yield
    except (asyncpg.DiskFullError, asyncpg.OutOfMemoryError) as error:
        raise TransferStopped(
            f"the target ran out of room ({error}): what was copied is kept; make room and run the same command again"
        ) from error


async def copy(link: Link, progress: Progress) -> int:
    """Copy every partition that is not copied yet, in batches of its own transactions; then what changed meanwhile."""
    async with disk_full_is_told():
        assert link.state is not None
        async with exclusive(link):
            await structure(link, count=link.state.phase == "copying")
        left = await link.target.fetchval(query("transfer/target/expected"), True)
        done = came = 0
        progress.step("copy", 0, left)
        async for batch in _batches(link):
            async with exclusive(link), snapshot(link.source) as source:
                came += await bring(link, source, [Change(partition) for partition, _ in batch], copied=True)
            done = min(left, done + sum(expected for _, expected in batch))
            progress.step("copy", done, left)
        progress.step("copy", left, left)
        applied = await catch_up(link)
        if link.state.phase == "copying":
            await link.target.execute(query("transfer/target/enter"), "copied")
            await link.target.execute(query("transfer/target/analyze"))
            await link.reload()
        return came + applied.messages


async def _batches(link: Link) -> AsyncIterator[list[tuple[Partition, int]]]:
    """The partitions still to copy, a few together while they are small."""
    last = 0
    while rows := await link.target.fetch(query("transfer/target/pending"), last):
        batch: list[tuple[Partition, int]] = []
        for row in rows:
            if batch and (sum(n for _, n in batch) + row["expected"] > PIECE or len(batch) == TOGETHER):
                yield batch
                batch = []
            batch.append((Partition(row["former_id"], row["id"]), row["expected"]))
        yield batch
        last = rows[-1]["id"]


async def bring(link: Link, source: Connection, changes: Sequence[Change], *, copied: bool = False) -> int:
    """Bring partitions over in as many transactions of the target as it takes."""
    came = 0
    complete = False
    while not complete:
        async with link.target.transaction():
            count, complete = await sync(link, source, changes)
            if complete and copied:
                former = [change.partition.former for change in changes]
                await link.target.execute(query("transfer/target/mark_copied"), former)
        came += count
        changes = [replace(change, since=None, removed_since=None, removed_until=None) for change in changes]
        changes = [replace(change, dead_letters=True, traces=True) for change in changes]
    return came


async def structure(link: Link, *, count: bool = False) -> list[int]:
    """Queues, partitions and groups as the source has them; the queues whose groups changed."""
    async with snapshot(link.source) as source, link.target.transaction():
        queues = await source.fetchval(query("transfer/queues"))
        await link.target.execute(query("transfer/target/store_queues"), queues)
        names = await source.fetch(query("transfer/queue_names"))
        await pipe(source, query("transfer/partitions"), (count,), link.target, "incoming_partitions", _PARTITIONS)
        await link.target.execute(query("transfer/target/store_partitions"))
        await link.target.execute(query("transfer/target/remove_queues"), [row["name"] for row in names])
        whole = count or link.version == "v3"
        groups = query(f"transfer/{link.version}/groups")
        await pipe(source, groups, (whole,), link.target, "incoming_groups", _GROUPS)
        rows = await link.target.fetch(query("transfer/target/store_groups"), whole)
        await link.target.execute(query("transfer/target/clear_incoming"))
        return [row["queue_id"] for row in rows]


async def one_round(link: Link, limit: int = ROUND) -> Applied:
    """Apply what the source told of: at most so many entries of its log."""
    async with exclusive(link):
        link.require("copying", "copied", "closing")
        return await _one_round(link, limit)


async def _one_round(link: Link, limit: int) -> Applied:
    rows = await link.source.fetch(query("transfer/changes"), limit)
    if not rows:
        return Applied()
    known = await _known(link, rows)
    settled: list[int] = []
    regrouped: list[int] = []
    if any(row["partition_id"] not in known for row in rows):
        regrouped = await structure(link)
        known = await _known(link, rows)
        settled = [entry for row in rows if row["partition_id"] not in known for entry in row["ids"]]
        async for batch in _batches(link):
            async with snapshot(link.source) as source:
                await bring(link, source, [Change(partition) for partition, _ in batch], copied=True)
    async with snapshot(link.source) as source:
        rows = await source.fetch(query("transfer/changes"), limit)
        known = await _known(link, rows)
        told = [row for row in rows if row["partition_id"] in known]
        changes = await _to_bring(link, told, known, regrouped)
        came = 0
        for start in range(0, len(changes), TOGETHER):
            came += await bring(link, source, changes[start : start + TOGETHER])
    settled += [entry for change in changes for entry in change.entries]
    await link.source.execute(query("transfer/forget_changes"), settled)
    return Applied(len(settled), came, {change.partition for change in changes})


async def _to_bring(
    link: Link, told: Sequence[asyncpg.Record], known: dict[object, asyncpg.Record], regrouped: list[int]
) -> list[Change]:
    """What has to be brought over for entries of the log: also the other partitions of queues that got a group."""
    regrouped = regrouped + await _unknown_groups(link, told, known)
    changes = [to_change(link, row, known[row["partition_id"]]) for row in told if known[row["partition_id"]]["copied"]]
    return changes + await _of_queues(link, regrouped, {change.partition for change in changes})


async def _known(link: Link, rows: Iterable[asyncpg.Record]) -> dict[object, asyncpg.Record]:
    found = await link.target.fetch(query("transfer/target/known"), [row["partition_id"] for row in rows])
    return {row["former_id"]: row for row in found}


async def _unknown_groups(link: Link, told: Sequence[asyncpg.Record], known: dict[object, asyncpg.Record]) -> list[int]:
    seen = {(known[row["partition_id"]]["queue_id"], group) for row in told for group in row["groups"]}
    rows = await link.target.fetch(
        query("transfer/target/add_groups"), [queue for queue, _ in seen], [group for _, group in seen]
    )
    return [row["queue_id"] for row in rows]


async def _of_queues(link: Link, queues: Sequence[int], without: set[Partition]) -> list[Change]:
    rows = await link.target.fetch(query("transfer/target/of_queues"), list(queues))
    found = [Partition(row["former_id"], row["id"]) for row in rows]
    return [Change(each, dead_letters=False, traces=False) for each in found if each not in without]


def to_change(link: Link, row: asyncpg.Record, known: asyncpg.Record) -> Change:
    """What the log says of one partition."""
    return Change(
        Partition(known["former_id"], known["id"]), row["added"], row["removed_since"], row["removed_until"],
        row["dead_letters"] or (link.version == "v2" and row["consumers"]), row["traces"], row["ids"],
    )  # fmt: skip


async def catch_up(link: Link, *, stopped: bool = False, limit: float = 3600) -> Applied:
    """Apply rounds while that brings the target nearer; of a source that is `stopped`, until nothing is left."""
    total = Applied(partitions=set())
    deadline = time.monotonic() + limit
    before: float = math.inf
    while True:
        applied = await one_round(link)
        total.entries += applied.entries
        total.messages += applied.messages
        assert total.partitions is not None
        total.partitions |= applied.partitions or set()
        if applied.entries == 0 or (not stopped and applied.entries < ROUND and applied.entries > SHRINKS * before):
            return total
        before = applied.entries
        if time.monotonic() > deadline:
            raise TransferStopped("the source changes faster than the target can follow: try at a calmer time")


async def follow(link: Link, progress: Progress, *, seconds: float | None = None, pause: float = 0.5) -> Applied:
    """Apply changes as they come, for so many seconds or until the task is cancelled."""
    link.require("copied")
    deadline = None if seconds is None else time.monotonic() + seconds
    total = Applied()
    async with disk_full_is_told():
        while deadline is None or time.monotonic() < deadline:
            applied = await one_round(link)
            total.entries += applied.entries
            total.messages += applied.messages
            progress.step("follow", total.entries, None)
            if applied.entries < ROUND:
                await asyncio.sleep(pause)
    return total
