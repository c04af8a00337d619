"""rollups: what went in and out, how long it waited and was worked on, and what was left, by minute, hour and day.

Figures are exact: percentiles are interpolated between the two nearest values, as `percentile_cont` does. Only those of
a queue with more than a million messages to go through are off by a ten-thousandth of its values at most, and those of
the whole time by 1 % at most. A row stands for a queue, partition and group; an empty partition for the whole queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.pipelines.changes import Reading, follow, note
from queen.spark.pipelines.definition import Context, Outcome, Period, pipeline
from queen.spark.pipelines.journeys import journeys, milliseconds
from queen.spark.pipelines.memory import Memory
from queen.spark.pipelines.sketches import percentiles, place
from queen.spark.pipelines.tables import TABLES, read_tables

KEYS: Final = ("queue", "partition", "consumer_group")
GRAINS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
PERCENTILES: Final = (0.5, 0.95, 0.99)
EXACT: Final = 1_000_000
ACCURACY: Final = 10_000
MINUTE: Final = 60_000_000
MILLISECOND: Final = 1000
NEVER: Final = 1 << 40
AT_ONCE: Final = 5000
UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@pipeline(
    "rollups",
    summary="Counts, waits and lag per queue, partition and group by minute, hour and day, for the charts",
    reads=(*TABLES, "redrives"),
    options={"partitions": "minute"},
    steady=True,
)
def rollups(context: Context) -> Outcome:
    """Write the buckets of the days on which anything is other than at the last run, or those of a period."""
    finest = context.options["partitions"]
    if finest not in (*GRAINS, "none"):
        raise SparkError("INVALID_OPTION", f"option `partitions` must be minute, hour, day or none, not {finest!r}")
    if context.period != Period():
        return of_a_period(context, finest)
    with closing(Database(context.url)) as database:
        memory = Memory(database, context.lake.identity.id, "rollups")
        reading = follow(context, memory, context.options)
        try:
            context.progress.step("summing up", 0, 2)
            count = write_buckets(context, reading, finest)
            context.progress.step("summing up", 1, 2)
            memory.forget_days(["queues"], reading.first)
            memory.keep_days("queues", daily(since_first(reading)))
            rows = context.write("queues", summed_up(memory), key="queue,consumer_group")
            note(reading, context.options)
            context.progress.step("summing up", 2, 2)
        finally:
            reading.close()
    return Outcome(count, {"buckets": count, "groups": rows, **reading.figures()})


def of_a_period(context: Context, finest: str) -> Outcome:
    """The buckets and the sums of a period, whatever was written before."""
    messages, deliveries, letters = read_tables(context)
    found = journeys(messages, deliveries, letters).persist()
    try:
        whole = within(events(found, deliveries), "at", context.period)
        rows = context.write("queues", summary(whole), key="queue,consumer_group")
        buckets = within(in_buckets(events(found, deliveries), finest), "bucket", context.period).persist()
        count = upsert(filled(found, buckets), context.url, context.began)
        buckets.unpersist()
    finally:
        found.unpersist()
    return Outcome(count, {"buckets": count, "groups": rows})


def write_buckets(context: Context, reading: Reading, finest: str) -> int:
    """The buckets from the first day on that is other than before, in place of those that are there."""
    large = [queue for queue, rows in sizes(reading).items() if rows > EXACT]
    buckets = in_buckets(since_first(reading), finest, large).persist()
    try:
        count = upsert(filled(reading.journeys, buckets), context.url, context.began)
    finally:
        buckets.unpersist()
    since = {queue: day or "-infinity" for queue, day in reading.first.items()}
    if since:
        ask = {"queues": since, "computed_at": context.began.isoformat()}
        reading.memory.database.rows("pipelines/remove_rollups", **ask)
    return count


def sizes(reading: Reading) -> Counter[str]:
    """How many messages are read of each queue."""
    counted: Counter[str] = Counter()
    for file in reading.files("messages"):
        counted[file.group or ""] += file.rows
    return counted


def since_first(reading: Reading) -> DataFrame:
    """What happened in each queue from the first day on that is other than before."""
    happened = events(reading.journeys, reading.tables[1])
    return happened.join(F.broadcast(reading.starts()), "queue").where("at >= first").drop("first")


def seconds(text: str) -> float:
    """How long a text such as `1 hour` or `90 seconds` means."""
    count, _, unit = text.strip().partition(" ")
    length = UNITS.get(unit.strip().removesuffix("s"))
    if length is None or not count.replace(".", "", 1).isdigit():
        raise SparkError("INVALID_OPTION", f"a length of time must be like `90 seconds` or `1 hour`, not {text!r}")
    return float(count) * length


def events(found: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Everything that happened, each at its time: came in, was first handed out, went out, a batch ended."""
    wait = milliseconds(F.col("created_at"), F.col("first_leased_at"))
    finished = F.when(~F.col("dead"), F.col("finished_at"))
    single = F.array(
        happened(F.col("created_at"), messages_in=F.lit(1), bytes_in=F.col("bytes")),
        happened(F.col("first_leased_at"), wait_ms=wait),
        happened(finished, messages_out=F.lit(1)),
    )
    work = F.when(
        F.col("outcome").isin("completed", "partial", "failed"), milliseconds(F.col("leased_at"), F.col("ended_at"))
    )
    ended = F.array(happened(F.col("ended_at"), messages_failed=F.col("failed"), work_ms=work))
    rows = found.select(*KEYS, single.alias("events")).union(
        deliveries.where("queue is not null").select(*KEYS, ended.alias("events"))
    )
    return rows.select(*KEYS, F.inline("events")).where("at is not null")


def happened(at: Column, **values: Column) -> Column:
    """One event."""
    counts = ("messages_in", "bytes_in", "messages_out", "messages_failed")
    shown = [values.get(name, F.lit(0)).cast("long").alias(name) for name in counts]
    times = [values.get(name, F.lit(None)).cast("double").alias(name) for name in ("wait_ms", "work_ms")]
    return F.struct(at.alias("at"), *shown, *times)


def totals(*, large: bool = False) -> list[Column]:
    """The figures of a set of events; of a large one percentiles are off by a ten-thousandth of all values at most."""
    sums = [F.sum(name).alias(name) for name in ("messages_in", "messages_out", "messages_failed", "bytes_in")]
    ranks = F.array(*map(F.lit, PERCENTILES))
    times = [
        F.percentile_approx(name, ranks, F.lit(ACCURACY)) if large else F.percentile(name, ranks)
        for name in ("wait_ms", "work_ms")
    ]
    return [*sums, times[0].alias("wait"), times[1].alias("work")]


def spread() -> list[Column]:
    """The percentiles as columns of their own."""
    return [
        F.col(what)[place].alias(f"{what}_p{round(rank * 100)}_ms")
        for what in ("wait", "work")
        for place, rank in enumerate(PERCENTILES)
    ]


def summary(events: DataFrame) -> DataFrame:
    """The figures of a whole length of time per queue and group."""
    counts = ("messages_in", "messages_out", "messages_failed", "bytes_in")
    return (
        events.groupBy("queue", "consumer_group").agg(*totals()).select("queue", "consumer_group", *counts, *spread())
    )


def daily(events: DataFrame) -> Iterator[dict[str, Any]]:
    """What each day of a queue came to in each group: sums, and how many values lie where."""
    key = [F.col("queue"), F.col("consumer_group"), F.to_date("at").alias("day")]
    counts = ("messages_in", "messages_out", "messages_failed", "bytes_in")
    sums = events.groupBy(*key).agg(*[F.sum(name).alias(name) for name in counts])
    values = F.array(*[
        F.struct(F.lit(name).alias("what"), place(F.col(f"{name}_ms")).alias("place")) for name in ("wait", "work")
    ])  # fmt: skip
    single = events.select(*key, F.inline(values)).where("place is not null")
    placed = single.groupBy("queue", "consumer_group", "day", "what", "place").count()
    entries = F.map_from_entries(F.collect_list(F.struct(F.col("place").cast("string"), "count")))
    whats = placed.groupBy("queue", "consumer_group", "day", "what").agg(entries.alias("places"))
    days = whats.groupBy("queue", "consumer_group", "day").agg(
        F.map_from_entries(F.collect_list(F.struct("what", "places"))).alias("counts")
    )
    for row in sums.join(days, ["queue", "consumer_group", "day"], "left").collect():
        value = {
            "sums": {name: row[name] for name in counts},
            "counts": row["counts"] or {},
            "most": {"consumer_group": row["consumer_group"]},
        }
        yield {"queue": row["queue"], "day": row["day"], "key": row["consumer_group"], "value": value}


def summed_up(memory: Memory) -> Iterator[dict[str, Any]]:
    """The figures of the whole time per queue and group, from those of its days."""
    for row in memory.together("queues", by="messages_in"):
        times = {
            f"{what}_p{round(rank * 100)}_ms": value
            for what in ("wait", "work")
            for rank, value in zip(PERCENTILES, percentiles(row["counts"].get(what, {}), PERCENTILES), strict=True)
        }
        yield {"queue": row["queue"], **row["most"], **row["sums"], **times}


def in_buckets(events: DataFrame, finest: str, large: Sequence[str] = ()) -> DataFrame:
    """Figures per scope, grain and bucket, single partitions no finer than `finest`; `large`: queues with many rows."""
    buckets = F.array(
        *[
            F.struct(scope.alias("partition"), F.lit(grain).alias("grain"), F.date_trunc(grain, "at").alias("bucket"))
            for grain in GRAINS
            for scope in ([F.col("partition"), F.lit("")] if single_at(grain, finest) else [F.lit("")])
        ]
    )
    every = events.withColumn("places", F.array_distinct(buckets)).drop("partition")
    figures = [name for name in events.columns if name not in (*KEYS, "at")]
    spread_out = every.select("queue", "consumer_group", *figures, F.inline("places"))
    if not large:
        return spread_out.groupBy(*KEYS, "grain", "bucket").agg(*totals())
    many = F.col("queue").isin(*large)
    exact = spread_out.where(~many).groupBy(*KEYS, "grain", "bucket").agg(*totals())
    return exact.unionByName(spread_out.where(many).groupBy(*KEYS, "grain", "bucket").agg(*totals(large=True)))


def single_at(grain: str, finest: str) -> bool:
    """Whether single partitions have rows of this grain."""
    return finest != "none" and GRAINS[grain] >= GRAINS[finest]


def filled(found: DataFrame, buckets: DataFrame) -> DataFrame:
    """The buckets with lag and age of the backlog at their end, as they are stored."""
    scopes = F.array_distinct(F.array("partition", F.lit("")))
    left = backlog(found.where("consumer_group <> ''").withColumn("partition", F.explode(scopes)), ends(buckets))
    counts = ("messages_in", "messages_out", "messages_failed", "bytes_in")
    return buckets.join(left, [*KEYS, "grain", "bucket"], "left").select(
        *KEYS, "grain", "bucket", *counts, *spread(), "lag", "backlog_age_ms"
    )


def end() -> Column:
    """When a bucket ends."""
    length = F.lit(0).cast("long")
    for grain, lasts in GRAINS.items():
        length = F.when(F.col("grain") == grain, F.lit(lasts * 1_000_000).cast("long")).otherwise(length)
    return F.timestamp_micros(F.unix_micros("bucket") + length)


def ends(buckets: DataFrame) -> DataFrame:
    """The moments at which buckets end."""
    return buckets.select(*KEYS, "grain", "bucket", end().alias("at"))


def backlog(found: DataFrame, moments: DataFrame) -> DataFrame:
    """At each moment: how many messages were stored before it and not finished before it, and how old the oldest is.

    Moments are ends of minutes. So what counts of a message is the first such end after it was stored and the last one
    before it was finished; most have none in between and are left out, and of the others those with the same two are
    one row. What is left of a queue is so little that one task can go through it.
    """
    begins = F.floor(F.unix_micros("created_at") / MINUTE) + 1
    ends = F.coalesce(F.floor(F.unix_micros("finished_at") / MINUTE), F.lit(NEVER))
    open_ = (
        found.select(*KEYS, begins.alias("begins"), ends.alias("ends"), F.unix_micros("created_at").alias("oldest"))
        .where("begins <= ends")
        .groupBy(*KEYS, "begins", "ends")
        .agg(F.count("*").alias("n"), F.min("oldest").alias("oldest"))
    )
    steps = F.array(
        F.struct(F.col("begins").alias("minute"), F.col("n").alias("delta"), F.lit(None).cast("long").alias("left")),
        F.struct(
            (F.col("ends") + 1).alias("minute"), (-F.col("n")).alias("delta"), F.lit(None).cast("long").alias("left")
        ),
        F.struct(F.col("ends").alias("minute"), F.lit(0).cast("long").alias("delta"), F.col("oldest").alias("left")),
    )
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in (("grain", "string"), ("bucket", "timestamp"))]
    changes = open_.select(*KEYS, F.inline(steps)).select("*", F.lit(1).alias("kind"), *nothing)
    asked = moments.select(
        *KEYS, F.floor(F.unix_micros("at") / MINUTE).alias("minute"), F.lit(0).cast("long").alias("delta"),
        F.lit(None).cast("long").alias("left"), F.lit(2).alias("kind"), "grain", "bucket",
    )  # fmt: skip
    forward = Window.partitionBy(*KEYS).orderBy("minute", "kind").rowsBetween(Window.unboundedPreceding, 0)
    back = Window.partitionBy(*KEYS).orderBy(F.desc("minute"), "kind").rowsBetween(Window.unboundedPreceding, 0)
    waiting = (
        changes.unionByName(asked)
        .withColumn("lag", F.sum("delta").over(forward))
        .withColumn("first", F.min("left").over(back))
        .where("kind = 2 and consumer_group <> ''")
    )
    age = F.when(F.col("lag") > 0, (F.col("minute") * MINUTE - F.col("first")) / MILLISECOND).otherwise(0)
    return waiting.select(*KEYS, "grain", "bucket", "lag", age.cast("bigint").alias("backlog_age_ms"))


def within(frame: DataFrame, column: str, period: Period) -> DataFrame:
    """The rows whose time lies in the period."""
    if period.start is not None:
        frame = frame.where(F.col(column) >= F.lit(period.start))
    return frame if period.end is None else frame.where(F.col(column) < F.lit(period.end))


def upsert(buckets: DataFrame, url: str, began: datetime) -> int:
    """Store buckets in place of those that are there; returns how many."""
    counted = buckets.mapInArrow(partial(store, url, began), "count long").agg(F.sum("count")).first()
    return int(counted[0] or 0) if counted else 0


def store(url: str, began: datetime, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task's share of the buckets."""
    database = Database(url)
    stamp = {"computed_at": began.isoformat()}
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                rows = [{**as_json(row), **stamp} for row in batch.slice(start, AT_ONCE).to_pylist()]
                database.rows("pipelines/upsert_rollups", rows=rows)
            yield pa.RecordBatch.from_pydict({"count": [batch.num_rows]})
    finally:
        database.close()


def as_json(row: Mapping[str, object]) -> dict[str, object]:
    """A bucket as PostgreSQL reads it."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
