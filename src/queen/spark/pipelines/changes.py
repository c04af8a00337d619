"""What is new in a lake since an analysis read it, and how much of the rest it has to read again because of that.

Facts come late: a message commits after later ones, a batch of last week is finished by what happens today, a message
that was handled dies when it is handled again. So for each queue there is a first day on which anything may be other
than before. What has to be read begins where the oldest message was created that was still under way on that day; for
every day and queue that is remembered. It comes from the log of the lake which files those are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property, reduce
from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.lake.files import File, State
from queen.spark.pipelines.definition import Context
from queen.spark.pipelines.journeys import FINISHED, LANE, journeys
from queen.spark.pipelines.memory import EVERYTHING, Memory, Seen, reaches_of
from queen.spark.pipelines.tables import TABLES, size_shuffles

OUTLINE: Final = "journeys"
SETTLED: Final = (*FINISHED, "moved")
DAY: Final = timedelta(days=1)
LATER: Final = "9999-12-31"
First = dict[str, str]
"""By queue the first day on which something may be other than before."""


class Course(msgspec.Struct):
    """What is known of the messages of one queue."""

    groups: list[str] = []
    since: dict[str, str] = {}
    """By day when the oldest message was created that was under way as it began, if that was earlier."""
    waiting: str = LATER
    """When the oldest was created that is under way still."""

    def reads_from(self, day: str) -> str:
        """The day from which files have to be read to know everything that happened from a day on."""
        return min(day, self.since.get(day, day), self.waiting)


class Outline(msgspec.Struct):
    """What is known of all messages of a lake."""

    seen: Seen = Seen()
    queues: dict[str, Course] = {}


@dataclass
class Reading:
    """What an analysis reads of a lake this time."""

    context: Context
    memory: Memory
    state: State
    outline: Outline
    first: First
    read: int = 0
    held: list[DataFrame] = field(default_factory=list)
    unsettled: dict[str, str] = field(default_factory=dict)

    @property
    def days(self) -> int:
        """How many days are worked out again, counted for each queue."""
        return len(
            {
                (f.group, f.date)
                for t in TABLES
                for f in self.state.of(t)
                if f.date >= self.first.get(f.group or "", LATER)
            }
        )

    @property
    def reads(self) -> First:
        """By queue the day from which files are read."""
        known = self.outline.queues
        return {
            queue: known[queue].reads_from(day) if day and queue in known else EVERYTHING
            for queue, day in self.first.items()
        }

    def files(self, table: str, since: First | None = None) -> list[File]:
        """The files of a table that have to be read; those without a queue belong to all."""
        bounds = self.reads if since is None else since
        least = min(bounds.values(), default=LATER)
        return [
            file
            for file in self.state.of(table)
            if file.date >= (least if file.group is None else bounds.get(file.group, LATER))
        ]

    def frame(self, table: str, files: Sequence[File] | None = None) -> DataFrame:
        """The rows of a table that have to be read, or of some of its files."""
        chosen = self.files(table) if files is None else files
        self.read += len(chosen)
        return self.context.lake.read(self.context.spark, table, chosen)

    @cached_property
    def tables(self) -> tuple[DataFrame, DataFrame, DataFrame]:
        """Messages, deliveries and dead letters."""
        chosen = [self.files(table) for table in TABLES]
        size_shuffles(self.context.spark, sum(file.bytes for files in chosen for file in files))
        messages, deliveries, letters = (self.frame(*pair) for pair in zip(TABLES, chosen, strict=True))
        return messages, deliveries, letters

    @cached_property
    def journeys(self) -> DataFrame:
        """What became of every message in every group."""
        groups = [(queue, group) for queue, course in self.outline.queues.items() for group in course.groups]
        return self.hold(journeys(*self.tables, groups))

    def hold(self, frame: DataFrame) -> DataFrame:
        """A frame that is worked out once, and kept until this is closed."""
        self.held.append(frame.persist())
        return frame

    def starts(self) -> DataFrame:
        """By queue the moment from which on things are worked out again."""
        days = [(queue, day or "0001-01-01") for queue, day in self.first.items()]
        return self.context.spark.createDataFrame(days, "queue string, first string").select(
            "queue", F.to_timestamp("first").alias("first")
        )

    def close(self) -> None:
        """Nothing is read any more."""
        while self.held:
            self.held.pop().unpersist()

    def figures(self) -> dict[str, object]:
        """How much was read and worked out again."""
        total = sum(len(self.state.of(table)) for table in TABLES)
        return {"files_read": self.read, "files": total, "days": self.days}


def follow(context: Context, memory: Memory, options: Mapping[str, str]) -> Reading:
    """What an analysis with these options has to read now, given what it read before."""
    state = context.lake.state()
    now = reaches_of(state)
    seen = memory.recall(memory.pipeline, Seen)
    seen = seen if seen is not None and seen.options == dict(options) else None
    outline = memory.recall(OUTLINE, Outline) or Outline()
    if outline.seen.reaches != now:
        before = outline.seen
        reading = Reading(context, memory, state, outline, changed(context, state, before, outline))
        outline = brought_up(reading, now)
        memory.remember(OUTLINE, outline)
        if seen is not None and (seen.reaches, seen.unsettled) == (before.reaches, before.unsettled):
            reading.unsettled = outline.seen.unsettled
            return reading
        reading.close()
    first = changed(context, state, seen, outline)
    return Reading(context, memory, state, outline, first, unsettled=outline.seen.unsettled)


def note(reading: Reading, options: Mapping[str, str]) -> None:
    """The analysis has read everything up to now."""
    seen = Seen(reaches=reaches_of(reading.state), options=dict(options), unsettled=reading.unsettled)
    reading.memory.remember(reading.memory.pipeline, seen)


def changed(context: Context, state: State, seen: Seen | None, outline: Outline) -> First:
    """By queue the first day on which something may be other than before; queues with nothing new are left out."""
    queues = {file.group for table in TABLES for file in state.of(table) if file.group is not None}
    if seen is None or not seen.reaches:
        return dict.fromkeys(queues, EVERYTHING)
    first: First = {queue: EVERYTHING for queue in queues if queue not in outline.queues}
    for file in new_files(state, seen, "messages"):
        earlier(first, file.group, file.date)
    for queue, group, day in happened(context, state, seen):
        for name in queues if queue is None else (queue,):
            known = group in outline.queues[name].groups if name in outline.queues else False
            earlier(first, name, day if known or queue is None else EVERYTHING)
    return first


def earlier(first: First, queue: str | None, day: str) -> None:
    """Something of a queue is other from a day on."""
    if queue is not None:
        first[queue] = min(first.get(queue, day), day)


def new_files(state: State, seen: Seen, table: str) -> list[File]:
    """The files of a table that may hold rows which were not read before."""
    mark = seen.reaches.get(table, 0)
    return [file for file in state.of(table) if file.high >= mark]


def happened(context: Context, state: State, seen: Seen) -> Iterator[tuple[str | None, str, str]]:
    """What new deliveries and dead letters change: queue, group and the first day."""
    batches, letters = (new_files(state, seen, table) for table in ("deliveries", "dead_letters"))
    if not batches and not letters:
        return
    fresh = context.lake.read(context.spark, "dead_letters", letters).where(is_new("failed_at", seen, "dead_letters"))
    bounds = dict(seen.unsettled)
    if letters:
        oldest = fresh.groupBy("queue").agg(F.min(F.to_date("created_at")).alias("day")).collect()
        for row in oldest:
            earlier(bounds, row.queue, row.day.isoformat())
    chosen = {file.path: file for file in batches}
    chosen |= {f.path: f for f in state.of("deliveries") if f.date >= bounds.get(f.group or "", LATER)}
    deliveries = context.lake.read(context.spark, "deliveries", list(chosen.values()))
    found = touched(deliveries, is_new("ended_at", seen, "deliveries"), fresh)
    for row in found.groupBy("queue", "consumer_group").agg(F.min("day").alias("day")).collect():
        yield row.queue, row.consumer_group, row.day.isoformat()


def is_new(column: str, seen: Seen, table: str) -> Column:
    """Whether a row was not read before."""
    return F.unix_micros(column) >= F.lit(seen.reaches.get(table, 0))


def touched(deliveries: DataFrame, new: Column, letters: DataFrame) -> DataFrame:
    """The days on which new batches and dead letters change something: their own, and those of what they settle."""
    lane = Window.partitionBy(*LANE).orderBy("leased_at", "ended_at", "batch_from")
    told = deliveries.withColumn("new", new)
    ordered = told.select(
        "queue", "consumer_group", "new", "leased_at",
        *[F.lag(name).over(lane).alias(f"last_{name}") for name in ("new", "outcome", "ended_at")],
    ).where("new")  # fmt: skip
    own = ordered.select("queue", "consumer_group", F.to_date("leased_at").alias("day"))
    settled = ordered.where(~F.col("last_new") & ~F.col("last_outcome").isin(*SETTLED)).select(
        "queue", "consumer_group", F.to_date("last_ended_at").alias("day")
    )
    died = letters.select("queue", "consumer_group", F.to_date("failed_at").alias("day"))
    before = (
        told.where("not new")
        .drop("queue")
        .join(F.broadcast(letters.select("queue", *LANE, "seq")), [*LANE])
        .where("seq between batch_from and batch_to")
        .select("queue", "consumer_group", F.to_date("ended_at").alias("day"))
    )
    return reduce(DataFrame.union, (own, settled, died, before))


def brought_up(reading: Reading, now: Mapping[str, int]) -> Outline:
    """What is known of all messages, with what is new."""
    known = dict(reading.outline.queues)
    for queue, day in reading.first.items():
        old = known.get(queue, Course())
        kept = {at: since for at, since in old.since.items() if at < day}
        known[queue] = Course(list(old.groups), kept, LATER)
    spent = reading.journeys.where("consumer_group <> ''").groupBy(
        "queue", F.to_date("created_at").alias("created"), F.to_date("finished_at").alias("finished")
    )
    for row in spent.agg(F.sort_array(F.collect_set("consumer_group")).alias("groups")).collect():
        course = known[row.queue]
        course.groups = sorted({*course.groups, *row.groups})
        if row.finished is None:
            course.waiting = min(course.waiting, row.created.isoformat())
            continue
        for at in days_between(row.created, row.finished):
            if at >= reading.first[row.queue]:
                course.since[at] = min(course.since.get(at, LATER), row.created.isoformat())
    unsettled = {queue: day for queue, day in reading.outline.seen.unsettled.items() if queue not in reading.first}
    unsettled |= {row.queue: row.day.isoformat() for row in open_ends(reading.tables[1]).collect()}
    return Outline(Seen(reaches=dict(now), unsettled=unsettled), known)


def open_ends(deliveries: DataFrame) -> DataFrame:
    """By queue the day of the oldest batch that was the last of its partition and of which the next tells more."""
    lane = Window.partitionBy(*LANE).orderBy("leased_at", "ended_at", "batch_from")
    last = deliveries.where("queue is not null").withColumn("following", F.lead("batch_from").over(lane))
    left = last.where(F.col("following").isNull() & ~F.col("outcome").isin(*SETTLED))
    return left.groupBy("queue").agg(F.min(F.to_date("ended_at")).alias("day"))


def days_between(created: date, finished: date) -> Iterator[str]:
    """The days that began between."""
    day = created + DAY
    while day <= finished:
        yield day.isoformat()
        day += DAY
