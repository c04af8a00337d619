"""What there is: queues, partitions, namespaces, tasks, with exact numbers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

from queen import errors
from queen.engine.groups import Groups
from queen.engine.resources import Counts, PartitionReport, QueueReport, Resources, Section, Spread
from queen.ids import to_wire
from queen.model import QUEUE_MODE
from queen.server.listing import fill, name_of, paging, window
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Response, Wire, answer, millis, partition_id

PAGE: Final = 1000


class MessageCounts(Wire):
    """Messages by where they stand; dead letters count apart."""

    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    dead_letter: int


class FewCounts(Wire):
    """Messages kept, waiting, and in leases."""

    total: int
    pending: int
    processing: int


class SectionCounts(Wire):
    """Messages kept and waiting."""

    total: int
    pending: int


class LagSpread(Wire):
    """How lag is spread over the lanes that have any."""

    avg: float
    median: float
    min: float
    max: float


class Lag(Wire):
    """Lag in seconds and in messages."""

    time: LagSpread
    offset: LagSpread


class Rates(Wire):
    """Messages per second over the last one to two minutes."""

    ingested_per_second: float
    processed_per_second: float


class OverviewAnswer(Wire):
    """Everything at a glance."""

    queues: int
    partitions: int
    namespaces: int
    tasks: int
    messages: MessageCounts
    lag: Lag
    throughput: Rates
    timestamp: str
    stats_age: float


class QueueEntry(Wire):
    """A queue in a list."""

    id: str
    name: str
    namespace: str
    task: str
    created_at: str
    partitions: int
    messages: FewCounts
    paused: bool


class QueueList(Wire):
    """Queues, newest first."""

    queues: list[QueueEntry]
    next_cursor: str | None
    total: int


class PartitionEntry(Wire):
    """A partition of a queue."""

    id: str
    name: str
    created_at: str
    stats: MessageCounts
    oldest_message: str | None
    newest_message: str | None


class QueueDetail(Wire):
    """One queue with its partitions."""

    id: str
    name: str
    namespace: str
    task: str
    created_at: str
    paused: bool
    partitions: list[PartitionEntry]
    totals: MessageCounts


class ListedPartition(PartitionEntry):
    """A partition with the name of its queue."""

    queue: str


class PartitionList(Wire):
    """Partitions in the order they were made."""

    partitions: list[ListedPartition]
    next_cursor: str | None


class Namespace(Wire):
    """A namespace with its numbers."""

    namespace: str
    queues: int
    partitions: int
    messages: SectionCounts


class NamespaceList(Wire):
    """Namespaces, by name."""

    namespaces: list[Namespace]


class Task(Wire):
    """A task with its numbers."""

    task: str
    queues: int
    partitions: int
    messages: SectionCounts


class TaskList(Wire):
    """Tasks, by name."""

    tasks: list[Task]


class PartitionDepth(Wire):
    """What waits in one partition."""

    partition: str
    pending: int


class DepthAnswer(Wire):
    """What a group has still to get from a queue."""

    queue: str
    group: str
    pending: int
    partitions_pending: int
    conflation: bool
    effective_pending: int
    partitions: list[PartitionDepth]


def say_counts(counts: Counts) -> MessageCounts:
    """Counts as an answer says them."""
    return fill(MessageCounts, counts, dead_letter=counts.dead_letters)


def say_queue(report: QueueReport) -> QueueEntry:
    """A queue as a list shows it."""
    return fill(
        QueueEntry,
        report.config,
        id=to_wire("queue", report.config.id),
        partitions=report.partitions,
        messages=fill(FewCounts, report.counts),
    )


def say_partition(report: PartitionReport) -> PartitionEntry:
    """A partition as its queue shows it."""
    return fill(PartitionEntry, report, **_partition_parts(report))


def _partition_parts(report: PartitionReport) -> dict[str, object]:
    return {
        "id": partition_id(report.id),
        "stats": say_counts(report.counts),
        "oldest_message": None if report.oldest_at is None else millis(report.oldest_at),
        "newest_message": None if report.newest_at is None else millis(report.newest_at),
    }


def _spread(spread: Spread) -> LagSpread:
    return fill(LagSpread, spread)


def _section(section: Section) -> SectionCounts:
    return fill(SectionCounts, section)


async def found_queue(request: Request, name: str) -> QueueReport:
    """The queue of that name; raises QueueNotFound."""
    report = await Resources(request.engine.database).queue(name_of("queue", name))
    if report is None:
        raise errors.QueueNotFound("Queue not found")
    return report


async def overview(request: Request) -> Response:
    """Everything at a glance, exact."""
    found = await Resources(request.engine.database).overview()
    age = 0.0 if found.collected_at is None else max(time.time() - found.collected_at.timestamp(), 0.0)
    return answer(
        fill(
            OverviewAnswer,
            found,
            messages=say_counts(found.counts),
            lag=Lag(_spread(found.lag), _spread(found.backlog)),
            throughput=Rates(round(found.pushed_per_second, 3), round(found.acked_per_second, 3)),
            timestamp=millis(datetime.now(UTC)),
            stats_age=round(age, 3),
        )
    )


async def queues(request: Request) -> Response:
    """Queues with their numbers, newest first."""
    page, total = await Resources(request.engine.database).queues(
        window(request, PAGE),
        namespace=request.text("namespace"),
        task=request.text("task"),
        search=request.text("search"),
    )
    return answer(QueueList([say_queue(report) for report in page.items], page.next_cursor, total))


async def queue(request: Request) -> Response:
    """One queue with its partitions."""
    (name,) = request.params
    report = await found_queue(request, name)
    page = await Resources(request.engine.database).partitions(name)
    return answer(
        fill(
            QueueDetail,
            report.config,
            id=to_wire("queue", report.config.id),
            partitions=[say_partition(each) for each in page.items],
            totals=say_counts(report.counts),
        )
    )


async def depth(request: Request) -> Response:
    """What a group has still to get from a queue, by partition."""
    (name,) = request.params
    group = request.text("group") or request.text("consumerGroup") or QUEUE_MODE
    found = await Groups(request.engine.database, request.engine.wake).depth(name_of("queue", name), group)
    return answer(
        DepthAnswer(
            name,
            group,
            found.waiting,
            len(found.partitions),
            False,
            found.waiting,
            [PartitionDepth(partition, pending) for partition, pending in found.partitions.items()],
        )
    )


async def partitions(request: Request) -> Response:
    """Partitions with their numbers, of one queue or all."""
    page = await Resources(request.engine.database).partitions(request.text("queue"), window(request, PAGE))
    found = [fill(ListedPartition, report, **_partition_parts(report)) for report in page.items]
    return answer(PartitionList(found, page.next_cursor))


async def namespaces(request: Request) -> Response:
    """Namespaces with their numbers."""
    found = await Resources(request.engine.database).namespaces()
    return answer(
        NamespaceList([fill(Namespace, each, namespace=each.name, messages=_section(each)) for each in found])
    )


async def tasks(request: Request) -> Response:
    """Tasks with their numbers."""
    found = await Resources(request.engine.database).tasks()
    return answer(TaskList([fill(Task, each, task=each.name, messages=_section(each)) for each in found]))


_NAMES: Final = (Query("namespace"), Query("task"), Query("search", description="Part of the name."))

ROUTES = [
    Route("GET", "/api/v1/resources/overview", overview, role="read", answer=OverviewAnswer),
    Route("GET", "/api/v1/resources/queues", queues, role="read", answer=QueueList, query=(*_NAMES, *paging(PAGE))),
    Route("GET", "/api/v1/resources/queues/:queue", queue, role="read", answer=QueueDetail, others=(404,)),
    Route(
        "GET",
        "/api/v1/resources/queues/:queue/depth",
        depth,
        role="read",
        answer=DepthAnswer,
        query=(Query("group", default=QUEUE_MODE),),
        others=(404,),
    ),
    Route(
        "GET",
        "/api/v1/resources/partitions",
        partitions,
        role="read",
        answer=PartitionList,
        query=(Query("queue"), *paging(PAGE)),
    ),
    Route("GET", "/api/v1/resources/namespaces", namespaces, role="read", answer=NamespaceList),
    Route("GET", "/api/v1/resources/tasks", tasks, role="read", answer=TaskList),
]
