"""Resources: queues, partitions, namespaces and tasks with their exact numbers."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from queen.db.pool import Database, Row
from queen.engine.queues import read_queue
from queen.engine.reading import Page, Reader, Window
from queen.model import QueueConfig

MAX_PARTITIONS: Final = 10_000


class Counts(Struct, frozen=True, kw_only=True):
    """Messages kept; of them pending, processing (in a live lease) and completed (passed by every group, not given up).

    `failed` of the pending ones failed before and wait for another try. Dead letters count apart: each is a copy for
    the group that gave it up, and stays when its message is not kept any more.
    """

    total: int = 0
    pending: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    dead_letters: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class QueueReport(Struct, frozen=True, kw_only=True):
    """A queue with its numbers; the rates are of the last one to two minutes, `lag_seconds` of its oldest message."""

    config: QueueConfig
    partitions: int
    counts: Counts
    lag_seconds: float | None
    pushed_per_second: float
    acked_per_second: float


class PartitionReport(Struct, frozen=True, kw_only=True):
    """A partition with its numbers."""

    id: int
    name: str
    queue: str
    created_at: datetime
    last_activity: datetime
    counts: Counts
    oldest_at: datetime | None
    newest_at: datetime | None
    consumed: int
    batches: int
    last_consumed_at: datetime | None


class Section(Struct, frozen=True, kw_only=True):
    """A namespace or a task with its numbers."""

    name: str
    queues: int
    partitions: int
    total: int
    pending: int


class Spread(Struct, frozen=True, kw_only=True):
    """How a number is spread over the lanes that have something waiting; all zero when none has."""

    avg: float = 0.0
    median: float = 0.0
    min: float = 0.0
    max: float = 0.0


class Overview(Struct, frozen=True, kw_only=True):
    """Everything at a glance. `lag` is in seconds, `backlog` in messages, per lane."""

    queues: int
    partitions: int
    namespaces: int
    tasks: int
    counts: Counts
    lag: Spread
    backlog: Spread
    pushed_per_second: float
    acked_per_second: float
    collected_at: datetime | None


class Resources:
    """What there is in a database."""

    def __init__(self, database: Database) -> None:
        self._reader = Reader(database)

    async def overview(self) -> Overview:
        """Everything at a glance."""
        row = (await self._reader.fetch("overview"))[0]
        return Overview(
            queues=row["queues"],
            partitions=row["partitions"],
            namespaces=row["namespaces"],
            tasks=row["tasks"],
            counts=_counts(row),
            lag=_spread(row, "time"),
            backlog=_spread(row, "offset"),
            pushed_per_second=_rate(row, "pushed"),
            acked_per_second=_rate(row, "acked"),
            collected_at=row["collected_at"],
        )

    async def queues(
        self, window: Window, *, namespace: str | None = None, task: str | None = None, search: str | None = None
    ) -> tuple[Page[QueueReport], int]:
        """Queues that match, newest first, and how many match in all."""
        (after,) = window.position(int)
        rows, totals = await self._reader.fetch_all(
            ("queues", namespace, task, None, search, after, window.limit + 1, window.offset),
            ("count_queues", namespace, task, search),
        )
        return window.page([_queue(row) for row in rows], [(row["id"],) for row in rows]), int(totals[0]["total"])

    async def queue(self, name: str) -> QueueReport | None:
        """One queue, or None."""
        row = await self._reader.first("queues", None, None, name, None, None, 1, 0)
        return None if row is None else _queue(row)

    async def partitions(self, queue: str | None, window: Window | None = None) -> Page[PartitionReport]:
        """The partitions of a queue, or of all; without a window the first 10 000."""
        limit, after = MAX_PARTITIONS, None
        if window is not None:
            limit = window.limit + window.offset + 1
            (after,) = window.position(int)
        rows = await self._reader.fetch("partitions", queue, after, limit)
        if window is None:
            return Page([_partition(row) for row in rows])
        rows = rows[window.offset :]
        return window.page([_partition(row) for row in rows], [(row["id"],) for row in rows])

    async def namespaces(self) -> list[Section]:
        """Every namespace, by name."""
        return [_section(row) for row in await self._reader.fetch("namespaces")]

    async def tasks(self) -> list[Section]:
        """Every task, by name."""
        return [_section(row) for row in await self._reader.fetch("tasks")]


def _counts(row: Row) -> Counts:
    return Counts(
        total=row["kept"],
        pending=row["waiting"] - row["processing"],
        processing=row["processing"],
        completed=row["kept"] - row["waiting"] - row["buried"],
        failed=row["failed"],
        dead_letters=row["dead_letters"],
    )


def _rate(row: Row, name: str) -> float:
    return float(row[name] / row["seconds"]) if row["seconds"] else 0.0


def _spread(row: Row, name: str) -> Spread:
    return Spread(**{part: float(row[f"{name}_{part}"] or 0) for part in Spread.__struct_fields__})


def _queue(row: Row) -> QueueReport:
    return QueueReport(
        config=read_queue(row),
        partitions=row["partitions"],
        counts=_counts(row),
        lag_seconds=row["lag_seconds"],
        pushed_per_second=_rate(row, "pushed"),
        acked_per_second=_rate(row, "acked"),
    )


def _partition(row: Row) -> PartitionReport:
    return PartitionReport(
        queue=row["queue_name"],
        counts=_counts(row),
        **{
            name: row[name]
            for name in (
                "id", "name", "created_at", "last_activity", "oldest_at", "newest_at", "consumed", "batches",
                "last_consumed_at",
            )
        },
    )  # fmt: skip


def _section(row: Row) -> Section:
    return Section(
        name=row["name"],
        queues=row["queues"],
        partitions=row["partitions"],
        total=row["kept"],
        pending=row["waiting"],
    )
