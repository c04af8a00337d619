"""Overview: problems first, then what goes in and out, then the queues."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import structs

from queen.dashboard import charts
from queen.dashboard.charts import Series
from queen.dashboard.frame import Visit, page, problems_of
from queen.dashboard.look import GroupLook, Look, QueueLook
from queen.dashboard.problems import Problem
from queen.server.wire import Wire


class Now(Wire, kw_only=True):
    """The figures that must be seen from two metres."""

    pushed_per_second: float
    done_per_second: float
    waiting: int
    processing: int
    behind: int
    partitions: int
    oldest_seconds: float | None
    oldest_of: str | None
    dead_letters: int
    dead_lately: int
    pushed_before: float | None
    failed_lately: int


class QueueRow(Wire, kw_only=True):
    """A queue in a list."""

    name: str
    namespace: str
    task: str
    paused: bool
    partitions: int
    waiting: int
    processing: int
    oldest_seconds: float | None
    pushed_per_second: float
    done_per_second: float
    slowest_group: str | None
    slowest_share: float
    groups: int
    dead_letters: int
    spark: str


class Overview(Wire, kw_only=True):
    """The first page."""

    problems: list[Problem]
    now: Now
    range: str
    series: Series
    queues: list[QueueRow]
    queue_count: int
    host: str
    collected: datetime | None


SHOWN = 12


@page("overview.html", "Overview")
async def overview(visit: Visit) -> Overview:
    """Problems first, then what goes in and out, then the queues."""
    look = visit.look
    seen = {number: queue for number, queue in look.queues.items() if visit.sees(queue.name)}
    chosen = charts.wanted_range(visit.text("range"))
    rows = [queue_row(look, queue) for queue in seen.values()]
    rows.sort(key=lambda row: (-row.waiting, -row.pushed_per_second, row.name))
    return Overview(
        problems=problems_of(visit),
        now=_now(look, seen),
        range=chosen,
        series=await series_of(visit, chosen),
        queues=rows[:SHOWN],
        queue_count=len(rows),
        host=visit.request.headers.get(b"host", b"localhost:6632").decode("latin-1"),
        collected=look.now,
    )


async def series_of(visit: Visit, chosen: str, queue_id: int | None = None) -> Series:
    """The series of a range, of one queue or of all the visitor may see."""
    now = charts.now_of(visit.look.now)
    samples = list(visit.looker.samples)
    _, length, step = charts.RANGES[chosen]
    start = now - timedelta(seconds=length + step)
    marks = await _marks(visit, queue_id, now - timedelta(seconds=length))
    if chosen == "5m" and queue_id is None and visit.identity.queues is None and len(samples) > 15:
        return structs.replace(charts.from_samples(samples, now.timestamp()), marks=marks)
    ids = None if visit.identity.queues is None else [q.id for q in visit.look.queues.values() if visit.sees(q.name)]
    name = "series_long" if length > charts.BY_MINUTE else "series"
    rows = await visit.looker.fetch(name, queue_id, ids, start, float(step))
    return structs.replace(charts.from_rows(rows, chosen, now), marks=marks)


async def _marks(visit: Visit, queue_id: int | None, start: datetime) -> list[tuple[int, str]]:
    """What people did in the time of a chart, as far as the visitor may know."""
    queue = None if queue_id is None else visit.look.queues[queue_id].name
    rows = await visit.looker.fetch("marks", queue, start, charts.MARKS)
    known = [row for row in rows if (visit.may("read") if row["queue"] is None else visit.sees(row["queue"]))]
    return [(int(row["at"].timestamp()), " ".join(filter(None, (row["act"], row["queue"])))) for row in known]


def queue_row(look: Look, queue: QueueLook) -> QueueRow:
    """A queue as lists show it."""
    now = charts.now_of(look.now)
    groups = look.groups_of(queue.id)
    slowest = groups[0] if groups else None
    pushed, done = pace(look, queue.id)
    oldest = look.oldest_at(queue.id)
    return QueueRow(
        name=queue.name,
        namespace=queue.namespace,
        task=queue.task,
        paused=queue.paused,
        partitions=queue.partitions,
        waiting=queue.waiting,
        processing=queue.processing,
        oldest_seconds=None if oldest is None else max((now - oldest).total_seconds(), 0.0),
        pushed_per_second=pushed,
        done_per_second=done,
        slowest_group=slowest.consumer_group if slowest else None,
        slowest_share=_share(slowest, queue),
        groups=len(groups),
        dead_letters=queue.dead_letters,
        spark=str(charts.spark(look.pace.get(queue.id, []), now)),
    )


def _share(group: GroupLook | None, queue: QueueLook) -> float:
    """How much of what is kept the group has still to get."""
    return 0.0 if group is None or not queue.kept else min(group.waiting / queue.kept, 1.0)


def pace(look: Look, queue_id: int) -> tuple[float, float]:
    """In and done per second, over the last one to two minutes; done is what the queue's busiest group finished."""
    minutes = look.pace.get(queue_id, [])
    now = charts.now_of(look.now)
    recent = [each for each in minutes if now - each.bucket < timedelta(seconds=120)]
    if not recent:
        return 0.0, 0.0
    seconds = max((now - recent[0].bucket).total_seconds(), 10.0)
    return sum(each.pushed for each in recent) / seconds, sum(each.acked for each in recent) / seconds


def _now(look: Look, seen: dict[int, QueueLook]) -> Now:
    now = charts.now_of(look.now)
    paces = [pace(look, number) for number in seen]
    oldest = min(
        ((group.oldest_at, group) for group in look.groups if group.oldest_at and group.queue_id in seen),
        key=lambda pair: pair[0],
        default=None,
    )
    hour_ago = [minutes[0] for number, minutes in look.pace.items() if minutes and number in seen and len(minutes) > 55]
    return Now(
        pushed_per_second=sum(pushed for pushed, _ in paces),
        done_per_second=sum(done for _, done in paces),
        waiting=sum(queue.waiting for queue in seen.values()),
        processing=sum(queue.processing for queue in seen.values()),
        behind=sum(queue.behind for queue in seen.values()),
        partitions=sum(queue.partitions for queue in seen.values()),
        oldest_seconds=max((now - oldest[0]).total_seconds(), 0.0) if oldest else None,
        oldest_of=seen[oldest[1].queue_id].name if oldest else None,
        dead_letters=sum(queue.dead_letters for queue in seen.values()),
        dead_lately=sum(queue.dead_lately for queue in seen.values()),
        pushed_before=sum(each.pushed for each in hour_ago) / 60 if hour_ago else None,
        failed_lately=sum(m.failed for number, minutes in look.pace.items() if number in seen for m in minutes),
    )
