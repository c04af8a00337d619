"""How it goes: throughput over time, queues, leases, dead letters, the disk buffer."""

from __future__ import annotations

import time
from typing import Final

from queen import errors
from queen.engine.browse import Browser
from queen.engine.reading import MAX_PAGE, Window
from queen.engine.reports import Leases, Point, Reports, Span
from queen.engine.resources import Counts, PartitionReport, Resources
from queen.ids import to_wire
from queen.server.listing import SPAN, Pagination, TimeRange, fill, name_of, paging, span, time_range, window
from queen.server.request import Request
from queen.server.routes.messages import FILTERS, MessageEntry, say_message, wanted
from queen.server.routes.resources import (
    MessageCounts,
    QueueEntry,
    found_queue,
    say_counts,
    say_partition,
    say_queue,
)
from queen.server.routing import Query, Route
from queen.server.wire import Response, Wire, answer, millis, millis_or_none

PAGE: Final = 100
TOP: Final = 10
_INTERVALS: Final = {"minute": 1, "hour": 60, "day": 1440}


class ThroughputPoint(Wire):
    """What happened in one bucket."""

    timestamp: str
    ingested: int
    processed: int
    pop_messages: int
    failed: int
    ingested_per_second: float
    processed_per_second: float
    pop_per_second: float
    avg_lag_ms: float
    max_lag_ms: int


class RequestCounts(Wire):
    """Requests this process answered."""

    push: int
    pop: int
    ack: int


class BatchEfficiency(Wire):
    """Messages per request of this process."""

    push: float
    pop: float
    ack: float


class StatusMessages(MessageCounts):
    """Messages by where they stand, and the requests that moved them."""

    requests: RequestCounts
    batch_efficiency: BatchEfficiency


class LeaseCounts(Wire):
    """The live leases."""

    active: int
    partitions_with_leases: int
    total_batch_size: int
    total_acked: int


class TopError(Wire):
    """An error many dead letters share."""

    error: str
    count: int


class DeadLetterCounts(Wire):
    """The dead letters that wait for someone."""

    total_messages: int
    affected_partitions: int
    top_errors: list[TopError]


class WorkerEntry(Wire):
    """This broker process."""

    worker_id: int
    hostname: str
    pid: int
    uptime: float
    pool_size: int
    pool_idle: int
    parked: int


class ErrorCounts(Wire):
    """What went wrong in the span of the report."""

    db_errors: int
    ack_failed: int
    dlq_messages: int


class StatusAnswer(Wire):
    """How it goes."""

    time_range: TimeRange
    bucket_minutes: int
    point_count: int
    throughput: list[ThroughputPoint]
    queues: list[QueueEntry]
    messages: StatusMessages
    leases: LeaseCounts
    dead_letter_queue: DeadLetterCounts
    workers: list[WorkerEntry]
    errors: ErrorCounts
    stats_age: float


class StatusQueues(Wire):
    """Queues, newest first."""

    queues: list[QueueEntry]
    pagination: Pagination
    next_cursor: str | None


class StatusConfig(Wire):
    """How a queue behaves."""

    lease_time: int
    retry_limit: int
    retry_delay: int
    ttl: int
    max_queue_size: int
    dead_letter_queue: bool


class StatusQueue(QueueEntry):
    """A queue with its configuration."""

    priority: int
    config: StatusConfig


class CursorCounts(Wire):
    """What was consumed from a partition, all groups together."""

    total_consumed: int
    batches_consumed: int


class StatusPartition(Wire):
    """A partition with its numbers."""

    id: str
    name: str
    created_at: str
    messages: MessageCounts
    stats: MessageCounts
    oldest_message: str | None
    newest_message: str | None
    cursor: CursorCounts
    last_activity: str | None


class StatusTotals(Wire):
    """A queue's partitions added up."""

    messages: MessageCounts
    partitions: int
    consumed: int


class StatusQueueDetail(Wire):
    """One queue in full."""

    queue: StatusQueue
    partitions: list[StatusPartition]
    totals: StatusTotals


class AnalyticsPoint(Wire):
    """Messages pushed in one interval."""

    timestamp: str
    messages: int


class AnalyticsAnswer(TimeRange, frozen=True, rename={"since": "from", "until": "to", "data_points": "dataPoints"}):
    """Messages pushed over time."""

    interval: str
    data_points: list[AnalyticsPoint]


class BufferAnswer(Wire):
    """The disk buffer of this process."""

    pending: int
    failed: int
    db_healthy: bool
    worker: int


def say_point(point: Point, minutes: int) -> ThroughputPoint:
    """A bucket as an answer says it."""
    seconds = minutes * 60
    return ThroughputPoint(
        millis(point.at),
        point.pushed,
        point.acked,
        point.popped,
        point.failed,
        round(point.pushed / seconds, 3),
        round(point.acked / seconds, 3),
        round(point.popped / seconds, 3),
        round(point.avg_lag_ms, 1),
        point.max_lag_ms,
    )


def say_worker(request: Request) -> WorkerEntry:
    """This process as an answer says it."""
    broker = request.broker
    holder, pid, *_ = broker.services.holder.split(":")
    size, idle = broker.engine.database.sizes
    uptime = round(time.time() - broker.started_at, 3)
    return WorkerEntry(broker.worker, holder, int(pid), uptime, size, idle, sum(broker.engine.parked.values()))


def _messages(request: Request, counts: Counts) -> StatusMessages:
    totals = request.broker.gauges.totals()
    requests = {verb: int(asked) for verb, (asked, _) in totals.items()}
    share = {verb: round(moved / asked, 3) if asked else 0.0 for verb, (asked, moved) in totals.items()}
    return fill(
        StatusMessages,
        counts,
        dead_letter=counts.dead_letters,
        requests=RequestCounts(**requests),
        batch_efficiency=BatchEfficiency(**share),
    )


def _leases(leases: Leases) -> LeaseCounts:
    return LeaseCounts(leases.active, leases.partitions, leases.batch_size, leases.acked)


async def _dead_letters(request: Request, asked: Span) -> DeadLetterCounts:
    totals = await Reports(request.engine.database).dead_letters(asked)
    groups = await request.engine.dead_letters.groups(queue=asked.queue, limit=TOP)
    return DeadLetterCounts(
        totals.total, totals.partitions, [TopError(each.error, each.dead_letters) for each in groups]
    )


async def status(request: Request) -> Response:
    """How it goes: throughput of the last hour unless said otherwise, and everything as it is now."""
    asked = span(request, 1)
    reports, resources = Reports(request.engine.database), Resources(request.engine.database)
    points = await reports.throughput(asked)
    page, _ = await resources.queues(Window(limit=MAX_PAGE), namespace=asked.namespace, task=asked.task)
    shown = [report for report in page.items if asked.queue is None or report.config.name == asked.queue]
    if asked.queue is not None and not shown and (one := await resources.queue(asked.queue)) is not None:
        shown = [one]
    overview = await resources.overview()
    named = asked.queue or asked.namespace or asked.task
    counts = sum((report.counts for report in shown), Counts()) if named else overview.counts
    dead = await _dead_letters(request, asked)
    age = 0.0 if overview.collected_at is None else max(time.time() - overview.collected_at.timestamp(), 0.0)
    return answer(
        StatusAnswer(
            time_range(asked),
            asked.bucket_minutes,
            len(points),
            [say_point(point, asked.bucket_minutes) for point in points],
            [say_queue(report) for report in shown],
            _messages(request, counts),
            _leases(await reports.leases(asked)),
            dead,
            [say_worker(request)],
            ErrorCounts(request.broker.metrics.unavailable, sum(point.failed for point in points), dead.total_messages),
            round(age, 3),
        )
    )


async def queues(request: Request) -> Response:
    """Queues with their numbers, newest first."""
    asked = window(request, PAGE)
    page, total = await Resources(request.engine.database).queues(
        asked, namespace=request.text("namespace"), task=request.text("task")
    )
    entries = [say_queue(report) for report in page.items]
    return answer(StatusQueues(entries, Pagination(asked.limit, asked.offset, total), page.next_cursor))


def _partition(report: PartitionReport) -> StatusPartition:
    counts = say_counts(report.counts)
    shown = say_partition(report)
    return StatusPartition(
        shown.id,
        shown.name,
        shown.created_at,
        counts,
        counts,
        shown.oldest_message,
        shown.newest_message,
        CursorCounts(report.consumed, report.batches),
        millis_or_none(report.last_activity),
    )


async def queue(request: Request) -> Response:
    """One queue in full."""
    (name,) = request.params
    report = await found_queue(request, name)
    page = await Resources(request.engine.database).partitions(name)
    entry = say_queue(report)
    shown = fill(
        StatusQueue,
        report.config,
        id=to_wire("queue", report.config.id),
        partitions=entry.partitions,
        messages=entry.messages,
        config=fill(StatusConfig, report.config),
    )
    consumed = sum(each.consumed for each in page.items)
    totals = StatusTotals(say_counts(report.counts), report.partitions, consumed)
    return answer(StatusQueueDetail(shown, [_partition(each) for each in page.items], totals))


async def messages(request: Request) -> Response:
    """Messages of one queue, newest first."""
    (name,) = request.params
    browser = Browser(request.engine.database, request.engine.keys, request.engine.wake)
    page, _ = await browser.browse(wanted(request, name_of("queue", name)), window(request, PAGE))
    return answer([say_message(each) for each in page.items])


async def analytics(request: Request) -> Response:
    """Messages pushed per minute, hour or day, of the last 24 hours unless said otherwise."""
    interval = request.text("interval") or "hour"
    if interval not in _INTERVALS:
        raise errors.InvalidRequest("interval", f"interval must be one of {', '.join(_INTERVALS)}")
    asked = span(request, 24)
    points = await Reports(request.engine.database).throughput(asked, _INTERVALS[interval])
    shown = [AnalyticsPoint(millis(point.at), point.pushed) for point in points]
    return answer(AnalyticsAnswer(millis(asked.since), millis(asked.until), interval, shown))


async def buffers(request: Request) -> Response:
    """The disk buffer of this process."""
    stats = request.broker.buffer.stats
    return answer(BufferAnswer(stats.pending, stats.failed, request.broker.watch.up, request.broker.worker))


_NAMES: Final = (Query("namespace"), Query("task"))

ROUTES = [
    Route("GET", "/api/v1/status", status, role="read", answer=StatusAnswer, query=SPAN),
    Route("GET", "/api/v1/status/queues", queues, role="read", answer=StatusQueues, query=(*_NAMES, *paging(PAGE))),
    Route("GET", "/api/v1/status/queues/:queue", queue, role="read", answer=StatusQueueDetail, others=(404,)),
    Route(
        "GET", "/api/v1/status/queues/:queue/messages", messages, role="read", answer=list[MessageEntry], query=FILTERS
    ),
    Route(
        "GET",
        "/api/v1/status/analytics",
        analytics,
        role="read",
        answer=AnalyticsAnswer,
        query=(Query("interval", default="hour", description="minute, hour or day."), *SPAN),
    ),
    Route("GET", "/api/v1/status/buffers", buffers, role="read", answer=BufferAnswer),
]
