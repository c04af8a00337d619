"""rollups: what went in and out, how long it waited and was worked on, and what was left, by minute, hour and day.

All figures are exact: percentiles are interpolated between the two nearest values, as `percentile_cont` does.
A row stands for a queue, partition and group; an empty partition for the whole queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.pipelines.definition import Context, Outcome, Period, pipeline
from queen.spark.pipelines.journeys import journeys, milliseconds
from queen.spark.pipelines.tables import TABLES, read_tables

KEYS: Final = ("queue", "partition", "consumer_group")
GRAINS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
PERCENTILES: Final = (0.5, 0.95, 0.99)
NEVER: Final = "9999-12-31 00:00:00"
AT_ONCE: Final = 5000
UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@pipeline(
    "rollups",
    summary="Counts, waits and lag per queue, partition and group by minute, hour and day, for the charts",
    reads=TABLES,
    options={"watermark": "1 hour", "partitions": "minute"},
)
def rollups(context: Context) -> Outcome:
    """Write what changed since the last run, and what may still have changed within the watermark."""
    finest = context.options["partitions"]
    if finest not in (*GRAINS, "none"):
        raise SparkError("INVALID_OPTION", f"option `partitions` must be minute, hour, day or none, not {finest!r}")
    watermark = seconds(context.options["watermark"])
    messages, deliveries, letters = read_tables(context)
    found = journeys(messages, deliveries, letters).persist()
    try:
        context.progress.step("summing up", 0, 2)
        found_events = events(found, deliveries)
        newest = found_events.agg(F.max("at")).first()
        until = newest[0] if newest else None
        whole = within(found_events, "at", context.period)
        rows = context.write("queues", summary(whole), key="queue,consumer_group")
        context.progress.step("summing up", 1, 2)
        buckets = wanted(in_buckets(found_events, finest), context.period, mark_of(context, watermark)).persist()
        count = upsert(filled(found, buckets), context.url)
        buckets.unpersist()
        context.progress.step("summing up", 2, 2)
    finally:
        found.unpersist()
    through = until.astimezone(UTC).isoformat() if until else None
    return Outcome(count, {"buckets": count, "groups": rows, "through": through, "watermark_seconds": watermark})


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


def totals() -> list[Column]:
    """The figures of a set of events."""
    sums = [F.sum(name).alias(name) for name in ("messages_in", "messages_out", "messages_failed", "bytes_in")]
    ranks = F.array(*map(F.lit, PERCENTILES))
    return [*sums, F.percentile("wait_ms", ranks).alias("wait"), F.percentile("work_ms", ranks).alias("work")]


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


def in_buckets(events: DataFrame, finest: str) -> DataFrame:
    """Figures per scope, grain and bucket; single partitions no finer than `finest`."""
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
    return spread_out.groupBy(*KEYS, "grain", "bucket").agg(*totals())


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

    The oldest is the first in order of creation that is finished at the moment or later: where the greatest
    time of finishing so far rises to it or above.
    """
    created = Window.partitionBy(*KEYS).orderBy("created_at", "partition_id", "seq")
    never, always = F.to_timestamp(F.lit(NEVER)), F.to_timestamp(F.lit("1970-01-01"))
    over = F.coalesce("finished_at", never)
    before = F.coalesce(F.max(over).over(created.rowsBetween(Window.unboundedPreceding, -1)), always)
    oldest = F.when(over > before, F.col("created_at"))

    def change(at: Column, delta: Column, oldest: Column) -> Column:
        return F.struct(
            at.alias("at"), F.lit(1).alias("kind"), delta.cast("long").alias("delta"), oldest.alias("oldest")
        )

    nothing, no_name = F.lit(None).cast("timestamp"), F.lit(None).cast("string")
    gone = F.when(F.col("finished_at").isNotNull(), -1).otherwise(0)
    changes = F.array(change(F.col("created_at"), F.lit(1), nothing), change(over, gone, F.col("oldest")))
    marked = found.withColumn("oldest", oldest).select(*KEYS, F.inline(changes))
    moment = [F.lit(0).alias("kind"), F.lit(0).cast("long").alias("delta"), nothing.alias("oldest")]
    told = marked.select("*", no_name.alias("grain"), nothing.alias("bucket")).union(
        moments.select(*KEYS, "at", *moment, "grain", "bucket")
    )
    # A frame that reaches to the end would be summed anew for every row; backwards it grows row by row.
    forward = Window.partitionBy(*KEYS).orderBy("at", "kind").rowsBetween(Window.unboundedPreceding, 0)
    back = Window.partitionBy(*KEYS).orderBy(F.desc("at"), F.desc("kind")).rowsBetween(Window.unboundedPreceding, 0)
    waiting = (
        told.withColumn("lag", F.sum("delta").over(forward))
        .withColumn("first", F.last("oldest", ignorenulls=True).over(back))
        .where("kind = 0 and consumer_group <> ''")
    )
    age = F.when(F.col("lag") > 0, milliseconds(F.col("first"), F.col("at"))).otherwise(0)
    return waiting.select(*KEYS, "grain", "bucket", "lag", age.cast("bigint").alias("backlog_age_ms"))


def within(frame: DataFrame, column: str, period: Period) -> DataFrame:
    """The rows whose time lies in the period."""
    if period.start is not None:
        frame = frame.where(F.col(column) >= F.lit(period.start))
    return frame if period.end is None else frame.where(F.col(column) < F.lit(period.end))


def wanted(buckets: DataFrame, period: Period, mark: datetime | None) -> DataFrame:
    """The buckets of the period asked for; with none, those that end after the mark."""
    if period != Period():
        return within(buckets, "bucket", period)
    return buckets if mark is None else buckets.where(end() > F.lit(mark))


def mark_of(context: Context, watermark: float) -> datetime | None:
    """Before this time nothing changes any more; None when nothing was rolled up yet.

    Runs over a period say nothing: they left out what lies outside.
    """
    database = Database(context.url)
    try:
        found = database.rows(
            "pipelines/last_figures", pipeline="rollups", lake=context.lake.place.address, **Period().asked()
        )
    finally:
        database.close()
    through = json.loads(found[0]["figures"]).get("through") if found else None
    return datetime.fromisoformat(through) - timedelta(seconds=watermark) if through else None


def upsert(buckets: DataFrame, url: str) -> int:
    """Store buckets in place of those that are there; returns how many."""
    counted = buckets.mapInArrow(partial(store, url), "count long").agg(F.sum("count")).first()
    return int(counted[0] or 0) if counted else 0


def store(url: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task's share of the buckets."""
    database = Database(url)
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                rows = [as_json(row) for row in batch.slice(start, AT_ONCE).to_pylist()]
                database.rows("pipelines/upsert_rollups", rows=rows)
            yield pa.RecordBatch.from_pydict({"count": [batch.num_rows]})
    finally:
        database.close()


def as_json(row: Mapping[str, object]) -> dict[str, object]:
    """A bucket as PostgreSQL reads it."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
