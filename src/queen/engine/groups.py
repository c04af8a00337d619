"""Consumer groups for people to look at: how far they are, how much waits, where they start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from msgspec import Struct

from queen import errors
from queen.db.pool import Database
from queen.engine.reading import Reader
from queen.engine.wake import Wake
from queen.model import SeekResult
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection

LATE: Final = 300
MAX_LANES: Final = 100_000


class Group(Struct, frozen=True, kw_only=True):
    """A group on one queue. `members` counts its cursors, `lagging` those with something waiting."""

    name: str
    queue: str
    members: int
    lagging: int
    waiting: int
    consumed: int
    leases: int
    lag_seconds: int | None
    last_consumed_at: datetime | None
    mode: str
    start_at: datetime
    created_at: datetime

    @property
    def state(self) -> Literal["Lagging", "Stable", "Dead"]:
        """Lagging beyond five minutes, stable once it consumed anything, else dead."""
        if (self.lag_seconds or 0) > LATE:
            return "Lagging"
        return "Stable" if self.last_consumed_at is not None else "Dead"


class LaggingLane(Struct, frozen=True, kw_only=True):
    """One partition a group is behind on."""

    group: str
    queue: str
    partition: str
    partition_id: int
    lease_id: UUID | None
    waiting: int
    lag_seconds: int
    oldest_at: datetime
    last_consumed_at: datetime | None


class Lane(Struct, frozen=True, kw_only=True):
    """One partition of a group. `lag_seconds`: since when the oldest message it has to get waits."""

    queue: str
    partition: str
    partition_id: int
    lease_id: UUID | None
    last_consumed_at: datetime | None
    last_consumed_seq: int
    total_consumed: int
    retry_count: int
    waiting: int
    lag_seconds: int | None


class Depth(Struct, frozen=True):
    """What a group has still to get from a queue, by partition."""

    waiting: int
    partitions: dict[str, int]


class Groups:
    """Consumer groups of a database."""

    def __init__(self, database: Database, wake: Wake) -> None:
        self._database = database
        self._reader = Reader(database)
        self._wake = wake

    async def known(self, group: str | None = None) -> list[Group]:
        """Every group on every queue, or one group, by name."""
        return [
            Group(
                name=row["consumer_group"],
                queue=row["queue_name"],
                **{name: row[name] for name in Group.__struct_fields__ if name not in ("name", "queue")},
            )
            for row in await self._reader.fetch("groups", group)
        ]

    async def lagging(self, min_seconds: float, limit: int = 1000) -> list[LaggingLane]:
        """The partitions groups are behind on by at least this much, worst first."""
        return [
            LaggingLane(
                group=row["consumer_group"],
                queue=row["queue_name"],
                partition=row["partition_name"],
                **{
                    name: row[name]
                    for name in ("partition_id", "lease_id", "waiting", "lag_seconds", "oldest_at", "last_consumed_at")
                },
            )
            for row in await self._reader.fetch("lagging", min_seconds, limit)
        ]

    async def lanes(self, group: str, queue: str | None = None) -> list[Lane]:
        """Every partition of one group, by queue and name."""
        return [
            Lane(
                queue=row["queue_name"],
                partition=row["partition_name"],
                total_consumed=row["total_messages_consumed"],
                **{
                    name: row[name]
                    for name in (
                        "partition_id", "lease_id", "last_consumed_at", "last_consumed_seq", "retry_count", "waiting",
                        "lag_seconds",
                    )
                },
            )
            for row in await self._reader.fetch("group_lanes", group, queue, MAX_LANES)
        ]  # fmt: skip

    async def depth(self, queue: str, group: str) -> Depth:
        """What a group has still to get from a queue; raises QueueNotFound."""
        rows = await self._reader.fetch("depths", queue, group)
        if not rows:
            raise errors.QueueNotFound(f"there is no queue {queue!r}")
        found = {row["partition_name"]: int(row["waiting"]) for row in rows if row["waiting"]}
        return Depth(sum(found.values()), found)

    async def set_subscription(self, group: str, time: datetime) -> int:
        """Change where a group starts when it meets a queue anew; returns how many subscriptions changed."""
        return int((await self._database.fetchrow(query("admin/set_subscription"), group, time))["changed"])

    async def seek_seqs(self, queue: str, group: str, seqs: Mapping[str, int], *, dry_run: bool = False) -> SeekResult:
        """Move a group to just after the given seq in each named partition, all or none."""
        queue_id = 0

        async def run(connection: Connection) -> list[SeekResult]:
            nonlocal queue_id
            rows = await connection.fetch(query("read/partition_ids"), queue, list(seqs))
            if not rows:
                raise errors.QueueNotFound(f"there is no queue {queue!r}")
            queue_id = rows[0]["queue_id"]
            known = [row["name"] for row in rows if row["name"] is not None]
            if missing := sorted(set(seqs) - set(known)):
                raise errors.InvalidRequest("seq", f"queue {queue!r} has no partition {missing[0]!r}")
            moved = []
            for name in known:
                row = (
                    await connection.fetch(query("engine/seek"), queue, group, "seq", None, seqs[name], name, dry_run)
                )[0]
                moved.append(SeekResult(**{field: row[field] for field in SeekResult.__struct_fields__}))
            return moved

        moved = await self._database.transaction(run)
        total = SeekResult(
            partitions=sum(each.partitions for each in moved),
            redelivered=sum(each.redelivered for each in moved),
            skipped=sum(each.skipped for each in moved),
        )
        if total.redelivered and not dry_run:
            self._wake.ready(queue, queue_id)
        return total
