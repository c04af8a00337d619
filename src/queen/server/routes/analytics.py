"""Analytics: the brokers, PostgreSQL, and every queue over time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from queen.engine.reports import PostgresReport, QueuePoint, Reports, Session, TableReport
from queen.engine.resources import Resources
from queen.server.listing import SPAN, TimeRange, fill, span, time_range, window
from queen.server.request import Request
from queen.server.routes.resources import QueueEntry, say_queue
from queen.server.routes.status import ThroughputPoint, WorkerEntry, say_point, say_worker
from queen.server.routing import Query, Route
from queen.server.samples import Sample
from queen.server.wire import Response, Wire, answer, millis

PAGE: Final = 100


class CpuUse(Wire):
    """Processor time in percent of one core."""

    percent: float


class MemoryUse(Wire):
    """Memory in bytes."""

    rss: int
    virtual: int


class PoolUse(Wire):
    """Connections to the database."""

    pool_size: int
    pool_idle: int
    pool_active: int


class SystemPoint(Wire):
    """A broker process at one moment."""

    timestamp: str
    cpu: CpuUse
    memory: MemoryUse
    database: PoolUse


class Replica(Wire):
    """A broker process over time."""

    hostname: str
    pid: int
    port: int
    worker_id: int
    time_series: list[SystemPoint]


class SystemMetrics(Wire):
    """Broker processes over time; each answers for itself."""

    time_range: TimeRange
    replica_count: int
    point_count: int
    replicas: list[Replica]


class WorkerSummary(Wire):
    """The span added up."""

    ingested: int
    processed: int
    pop_messages: int
    failed: int
    avg_lag_ms: float
    max_lag_ms: int


class WorkerMetrics(Wire):
    """What went through, over time and by queue."""

    time_range: TimeRange
    bucket_minutes: int
    point_count: int
    time_series: list[ThroughputPoint]
    workers: list[WorkerEntry]
    queues: list[QueueEntry]
    summary: WorkerSummary


class DatabaseUse(Wire):
    """PostgreSQL as a whole."""

    name: str
    version: str
    size: int
    connections: int
    max_connections: int
    commits: int
    rollbacks: int
    cache_hit_ratio: float | None
    deadlocks: int
    conflicts: int
    temp_bytes: int


class TableUse(Wire):
    """One of our tables."""

    name: str
    size: int
    index_size: int
    live_rows: int
    dead_rows: int
    dead_ratio: float
    inserted: int
    updated: int
    hot_updated: int
    deleted: int
    cache_hit_ratio: float | None
    last_vacuum: str | None
    last_autovacuum: str | None
    last_autoanalyze: str | None


class ActiveQuery(Wire):
    """A session that does something."""

    pid: int
    application_name: str | None
    state: str
    wait_event_type: str | None
    wait_event: str | None
    statement: str
    running_seconds: float | None
    transaction_seconds: float | None
    xmin: str | None


class PostgresStats(Wire):
    """How PostgreSQL is."""

    timestamp: str
    database: DatabaseUse
    cache: dict[str, float | None]
    tables: list[TableUse]
    active_queries: list[ActiveQuery]
    oldest_transaction_seconds: float


class LagPoint(Wire):
    """What waited at most in one bucket."""

    timestamp: str
    pending: int
    max_lag_ms: int


class QueueLag(Wire):
    """A queue's backlog over time."""

    queue: str
    points: list[LagPoint]


class QueueLagAnswer(Wire):
    """Backlogs over time."""

    time_range: TimeRange
    bucket_minutes: int
    queues: list[QueueLag]


class OpsPoint(Wire):
    """What happened to one queue in one bucket."""

    timestamp: str
    push: int
    pop: int
    ack: int
    failed: int


class QueueOps(Wire):
    """A queue's traffic over time."""

    queue: str
    points: list[OpsPoint]


class QueueOpsAnswer(Wire):
    """Traffic over time."""

    time_range: TimeRange
    bucket_minutes: int
    queues: list[QueueOps]


class ParkedEntry(Wire):
    """Pops that wait for a queue."""

    queue: str
    parked: int


class ParkedAnswer(Wire):
    """Pops that wait at this process."""

    worker: WorkerEntry
    queues: list[ParkedEntry]
    total: int


class RemovalEntry(Wire):
    """What was removed from a queue in one bucket."""

    timestamp: str
    queue: str
    type: str
    messages: int


class RetentionAnswer(Wire):
    """What retention and eviction removed."""

    time_range: TimeRange
    bucket_minutes: int
    points: list[RemovalEntry]
    totals: dict[str, int]


class StatsRefreshed(Wire):
    """The statistics are current."""

    success: bool
    queues: int
    message: str


def _system_point(sample: Sample) -> SystemPoint:
    return SystemPoint(
        millis(datetime.fromtimestamp(sample.at, UTC)),
        CpuUse(sample.cpu_percent),
        MemoryUse(sample.rss, sample.virtual),
        PoolUse(sample.pool_size, sample.pool_idle, sample.pool_size - sample.pool_idle),
    )


async def system_metrics(request: Request) -> Response:
    """Processor, memory and connections of this process, over time."""
    asked = span(request, 1)
    samples = request.broker.samples
    samples.take()
    found = samples.between(asked.since.timestamp(), asked.until.timestamp() + 1)
    worker = say_worker(request)
    replica = Replica(
        worker.hostname,
        worker.pid,
        request.settings.port,
        worker.worker_id,
        [_system_point(sample) for sample in found],
    )
    return answer(SystemMetrics(time_range(asked), 1, len(found), [replica]))


async def worker_metrics(request: Request) -> Response:
    """What went through, over time and by queue."""
    asked = span(request, 1)
    points = await Reports(request.engine.database).throughput(asked)
    page, _ = await Resources(request.engine.database).queues(
        window(request, PAGE), namespace=asked.namespace, task=asked.task
    )
    lags = [point.avg_lag_ms for point in points]
    summary = WorkerSummary(
        sum(point.pushed for point in points),
        sum(point.acked for point in points),
        sum(point.popped for point in points),
        sum(point.failed for point in points),
        round(sum(lags) / len(lags), 1) if lags else 0.0,
        max((point.max_lag_ms for point in points), default=0),
    )
    return answer(
        WorkerMetrics(
            time_range(asked),
            asked.bucket_minutes,
            len(points),
            [say_point(point, asked.bucket_minutes) for point in points],
            [say_worker(request)],
            [say_queue(each) for each in page.items if asked.queue in (None, each.config.name)],
            summary,
        )
    )


def _table(table: TableReport) -> TableUse:
    rows = table.live_rows + table.dead_rows
    return fill(TableUse, table, dead_ratio=round(table.dead_rows / rows, 4) if rows else 0.0)


def _session(session: Session) -> ActiveQuery:
    return fill(ActiveQuery, session)


def _postgres(report: PostgresReport) -> PostgresStats:
    return PostgresStats(
        millis(datetime.now(UTC)),
        fill(DatabaseUse, report.database),
        {
            "databaseHitRatio": report.database.cache_hit_ratio,
            **{f"{table.name}HitRatio": table.cache_hit_ratio for table in report.tables},
        },
        [_table(table) for table in report.tables],
        [_session(session) for session in report.sessions],
        max((session.transaction_seconds or 0.0 for session in report.sessions), default=0.0),
    )


async def postgres_stats(request: Request) -> Response:
    """How PostgreSQL is: cache, dead rows, sizes, who works and since when."""
    return answer(_postgres(await Reports(request.engine.database).postgres()))


async def _series(request: Request) -> tuple[TimeRange, int, dict[str, list[QueuePoint]]]:
    asked = span(request, 1)
    found: dict[str, list[QueuePoint]] = {}
    for point in await Reports(request.engine.database).queue_series(asked):
        found.setdefault(point.queue, []).append(point)
    return time_range(asked), asked.bucket_minutes, found


async def queue_lag(request: Request) -> Response:
    """Each queue's backlog over time."""
    between, minutes, found = await _series(request)
    queues = [
        QueueLag(name, [LagPoint(millis(point.at), point.waiting, point.max_lag_ms) for point in points])
        for name, points in found.items()
    ]
    return answer(QueueLagAnswer(between, minutes, queues))


async def queue_ops(request: Request) -> Response:
    """Each queue's traffic over time."""
    between, minutes, found = await _series(request)
    queues = [
        QueueOps(
            name,
            [OpsPoint(millis(point.at), point.pushed, point.popped, point.acked, point.failed) for point in points],
        )
        for name, points in found.items()
    ]
    return answer(QueueOpsAnswer(between, minutes, queues))


async def parked(request: Request) -> Response:
    """Pops that wait at this process, by queue."""
    found = sorted((name, count) for name, count in request.engine.parked.items() if count)
    entries = [ParkedEntry(name, count) for name, count in found]
    return answer(ParkedAnswer(say_worker(request), entries, sum(count for _, count in found)))


async def retention(request: Request) -> Response:
    """What retention and eviction removed, over time."""
    asked = span(request, 24)
    removals = await Reports(request.engine.database).retention(asked)
    totals: dict[str, int] = {}
    for removal in removals:
        totals[removal.kind] = totals.get(removal.kind, 0) + removal.removed
    points = [RemovalEntry(millis(each.at), each.queue, each.kind, each.removed) for each in removals]
    return answer(RetentionAnswer(time_range(asked), asked.bucket_minutes, points, totals))


async def refresh(request: Request) -> Response:
    """Collect the statistics now instead of at the next interval."""
    count = await Reports(request.engine.database).refresh()
    return answer(StatsRefreshed(True, count, "Statistics refreshed"))


_AT: Final = "/api/v1/analytics"
_LIMIT: Final = Query("limit", "integer", default=PAGE)

ROUTES = [
    Route("GET", f"{_AT}/system-metrics", system_metrics, role="read", answer=SystemMetrics, query=SPAN[:2]),
    Route("GET", f"{_AT}/worker-metrics", worker_metrics, role="read", answer=WorkerMetrics, query=(*SPAN, _LIMIT)),
    Route("GET", f"{_AT}/postgres-stats", postgres_stats, role="read", answer=PostgresStats),
    Route("GET", f"{_AT}/queue-lag", queue_lag, role="read", answer=QueueLagAnswer, query=SPAN),
    Route("GET", f"{_AT}/queue-ops", queue_ops, role="read", answer=QueueOpsAnswer, query=SPAN),
    Route("GET", f"{_AT}/queue-parked-replicas", parked, role="read", answer=ParkedAnswer),
    Route("GET", f"{_AT}/retention", retention, role="read", answer=RetentionAnswer, query=SPAN[:3]),
    Route("POST", "/api/v1/stats/refresh", refresh, role="admin", answer=StatsRefreshed),
]
