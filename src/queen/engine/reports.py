"""Reports: what happened over time, what the services do, and how PostgreSQL is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.reading import Reader
from queen.sql import query

T = TypeVar("T", bound=Struct)
MAX_SPAN: Final = timedelta(days=366)
_BUCKETS: Final = ((2, 1), (12, 5), (48, 15), (168, 60), (1440, 360))


class Span(Struct, frozen=True, kw_only=True):
    """A stretch of time and which queues: every filter given must match."""

    since: datetime
    until: datetime
    queue: str | None = None
    namespace: str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.until - self.since <= MAX_SPAN:
            raise errors.InvalidRequest("from", f"from must be before to, by at most {MAX_SPAN.days} days")

    @property
    def bucket_minutes(self) -> int:
        """Minutes per point, so that a chart has some hundreds of them."""
        hours = (self.until - self.since).total_seconds() / 3600
        return next((minutes for limit, minutes in _BUCKETS if hours <= limit), 1440)

    @property
    def names(self) -> tuple[str | None, str | None, str | None]:
        """The filters as parameters."""
        return self.queue, self.namespace, self.task


def last_hours(hours: float) -> tuple[datetime, datetime]:
    """From that long ago until now."""
    now = datetime.now(UTC)
    return now - timedelta(hours=hours), now


class Point(Struct, frozen=True, kw_only=True):
    """What happened in one bucket. The lags are ages of the oldest waiting message, seen at each collection."""

    at: datetime
    pushed: int
    popped: int
    acked: int
    failed: int
    avg_lag_ms: float
    max_lag_ms: int


class QueuePoint(Struct, frozen=True, kw_only=True):
    """The same for one queue, with the most it had waiting."""

    queue: str
    at: datetime
    pushed: int
    popped: int
    acked: int
    failed: int
    waiting: int
    max_lag_ms: int


class Leases(Struct, frozen=True, kw_only=True):
    """The live leases: how many, on how many partitions, for how many messages, of which this many are acked."""

    active: int
    partitions: int
    batch_size: int
    acked: int


class DeadLetterTotals(Struct, frozen=True):
    """How many dead letters wait for someone, on how many partitions."""

    total: int
    partitions: int


class Removal(Struct, frozen=True, kw_only=True):
    """What retention or eviction took from one queue in one bucket."""

    queue: str
    kind: str
    at: datetime
    removed: int


class ServiceReport(Struct, frozen=True, kw_only=True):
    """A background service: `held` when someone runs it now, `late` without a success for three intervals.

    `last_result` is JSON text.
    """

    service: str
    holder: str
    held: bool
    expires_at: datetime
    interval_ms: int
    slot: int
    last_start_at: datetime | None
    last_success: datetime | None
    last_error_at: datetime | None
    last_error: str | None
    last_result: str | None
    late: bool


class DatabaseReport(Struct, frozen=True, kw_only=True):
    """PostgreSQL as a whole; sizes in bytes, counters since its statistics were last reset."""

    name: str
    version: str
    size: int
    connections: int
    max_connections: int
    commits: int
    rollbacks: int
    blocks_read: int
    blocks_hit: int
    cache_hit_ratio: float | None
    deadlocks: int
    conflicts: int
    temp_bytes: int


class TableReport(Struct, frozen=True, kw_only=True):
    """One of our tables; rows are PostgreSQL's own estimates, sizes in bytes."""

    name: str
    size: int
    index_size: int
    live_rows: int
    dead_rows: int
    inserted: int
    updated: int
    hot_updated: int
    deleted: int
    cache_hit_ratio: float | None
    last_vacuum: datetime | None
    last_autovacuum: datetime | None
    last_autoanalyze: datetime | None


class Session(Struct, frozen=True, kw_only=True):
    """A session that does something; one that holds `xmin` for long keeps dead rows from being cleaned."""

    pid: int
    application_name: str | None
    state: str
    wait_event_type: str | None
    wait_event: str | None
    statement: str
    running_seconds: float | None
    transaction_seconds: float | None
    xmin: str | None


class PostgresReport(Struct, frozen=True, kw_only=True):
    """How PostgreSQL is."""

    database: DatabaseReport
    tables: list[TableReport]
    sessions: list[Session]


class QueueTotals(Struct, frozen=True, kw_only=True):
    """A queue's running totals and depth at one moment."""

    id: int
    name: str
    paused: bool
    waiting: int
    processing: int
    pushed: int
    popped: int
    acked: int
    dead_letters: int


class Reports:
    """Reports on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reader = Reader(database)

    async def throughput(self, span: Span, minutes: int | None = None) -> list[Point]:
        """What happened, bucket by bucket; buckets in which nothing was collected are left out."""
        rows = await self._reader.fetch(
            "throughput", span.since, span.until, minutes or span.bucket_minutes, *span.names
        )
        return [
            Point(
                at=row["bucket"],
                avg_lag_ms=float(row["avg_lag_ms"] or 0),
                **{name: row[name] for name in ("pushed", "popped", "acked", "failed", "max_lag_ms")},
            )
            for row in rows
        ]

    async def queue_series(self, span: Span) -> list[QueuePoint]:
        """What happened, queue by queue and bucket by bucket."""
        rows = await self._reader.fetch("queue_series", span.since, span.until, span.bucket_minutes, *span.names)
        return [
            QueuePoint(
                queue=row["name"],
                at=row["bucket"],
                **{name: row[name] for name in ("pushed", "popped", "acked", "failed", "waiting", "max_lag_ms")},
            )
            for row in rows
        ]

    async def leases(self, span: Span) -> Leases:
        """The live leases of the queues that match."""
        return _whole(Leases, (await self._reader.fetch("leases", *span.names))[0])

    async def dead_letters(self, span: Span) -> DeadLetterTotals:
        """The dead letters of the queues that match."""
        return _whole(DeadLetterTotals, (await self._reader.fetch("dead_letter_totals", *span.names))[0])

    async def retention(self, span: Span) -> list[Removal]:
        """What retention and eviction removed, bucket by bucket."""
        rows = await self._reader.fetch("retention", span.since, span.until, span.bucket_minutes, span.queue)
        return [Removal(queue=row["name"], kind=row["kind"], at=row["bucket"], removed=row["removed"]) for row in rows]

    async def services(self) -> list[ServiceReport]:
        """Every background service that ever ran, by name."""
        return [_whole(ServiceReport, row) for row in await self._reader.fetch("services")]

    async def postgres(self) -> PostgresReport:
        """How PostgreSQL is."""
        database, tables, sessions = await self._reader.fetch_all(("database",), ("tables",), ("activity",))
        return PostgresReport(
            database=_whole(DatabaseReport, database[0]),
            tables=[_whole(TableReport, row) for row in tables],
            sessions=[_whole(Session, row) for row in sessions],
        )

    async def totals(self) -> list[QueueTotals]:
        """Every queue's running totals and depth, by name."""
        return [_whole(QueueTotals, row) for row in await self._reader.fetch("totals")]

    async def refresh(self) -> int:
        """Collect statistics now; returns over how many queues."""
        return int((await self._database.fetchrow(query("services/collect_stats")))["queues"])


def _whole(kind: type[T], row: Row) -> T:
    return kind(**{name: row[name] for name in kind.__struct_fields__})
