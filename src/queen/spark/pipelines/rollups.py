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

KEYS: Final = ("queue", "partition", "consumer_group")
GRAINS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
PERCENTILES: Final = (0.5, 0.95, 0.99)
NEVER: Final = "9999-12-31 00:00:00"
AT_ONCE: Final = 5000
UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@pipeline(
    "rollups",
    summary="Counts, waits and lag per queue, partition and group by minute, hour and day, for the charts",
    reads=("messages", "deliveries", "dead_letters"),
    options={"watermark": "1 hour", "partitions": "minute"},
)
def rollups(context: Context) -> Outcome:
    """Write what changed since the last run, and what may still have changed within the watermark."""
    finest = context.options["partitions"]
    if finest not in (*GRAINS, "none"):
        raise SparkError("INVALID_OPTION", f"option `partitions` must be minute, hour, day or none, not {finest!r}")
    watermark = seconds(context.options["watermark"])
    messages, deliveries, letters = (
        context.lake.read(context.spark, table) for table in ("messages", "deliveries", "dead_letters")
    )
    found = journeys(messages, deliveries, letters).persist()
    try:
        happened = events(found, deliveries)
        newest = happened.agg(F.max("at")).first()
        until = newest[0] if newest else None
        context.progress.step("summing up", 0, 2)
        whole = within(happened, "at", context.period)
        rows = context.write("queues", summary(whole), key="queue,consumer_group")
        context.progress.step("summing up", 1, 2)
        buckets = wanted(filled(found, happened, finest), context.period, mark_of(context, watermark))
        count = upsert(buckets, context.url)
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
    nothing = {
        "messages_in": F.lit(0),
        "bytes_in": F.lit(0),
        "messages_out": F.lit(0),
        "messages_failed": F.lit(0),
        "wait_ms": F.lit(None).cast("double"),
        "work_ms": F.lit(None).cast("double"),
    }

    def happened(frame: DataFrame, at: str, **values: Column) -> DataFrame:
        shown = [value.alias(name) for name, value in {**nothing, **values}.items()]
        return frame.where(F.col(at).isNotNull()).select(*KEYS, F.col(at).alias("at"), *shown)

    work = F.when(
        F.col("outcome").isin("completed", "partial", "failed"), milliseconds(F.col("leased_at"), F.col("ended_at"))
    )
    return (
        happened(found, "created_at", messages_in=F.lit(1), bytes_in=F.col("bytes"))
        .union(happened(found, "first_leased_at", wait_ms=milliseconds(F.col("created_at"), F.col("first_leased_at"))))
        .union(happened(found.where("not dead"), "finished_at", messages_out=F.lit(1)))
        .union(
            happened(deliveries.where("queue is not null"), "ended_at", messages_failed=F.col("failed"), work_ms=work)
        )
    )


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


def summary(happened: DataFrame) -> DataFrame:
    """The figures of a whole length of time per queue and group."""
    counts = ("messages_in", "messages_out", "messages_failed", "bytes_in")
    return (
        happened.groupBy("queue", "consumer_group").agg(*totals()).select("queue", "consumer_group", *counts, *spread())
    )


def in_scopes(frame: DataFrame, *, single: bool = True) -> DataFrame:
    """Each row for its partition and for the whole queue."""
    scopes = F.array("partition", F.lit("")) if single else F.array(F.lit(""))
    return frame.withColumn("partition", F.explode(F.array_distinct(scopes)))


def in_buckets(happened: DataFrame, finest: str) -> DataFrame:
    """Figures per scope, grain and bucket; single partitions no finer than `finest`."""
    graded = [
        in_scopes(happened, single=single_at(grain, finest))
        .withColumn("grain", F.lit(grain))
        .withColumn("bucket", F.date_trunc(grain, "at"))
        for grain in GRAINS
    ]
    every = graded[0].union(graded[1]).union(graded[2])
    return every.groupBy(*KEYS, "grain", "bucket").agg(*totals())


def single_at(grain: str, finest: str) -> bool:
    """Whether single partitions have rows of this grain."""
    return finest != "none" and GRAINS[grain] >= GRAINS[finest]


def filled(found: DataFrame, happened: DataFrame, finest: str) -> DataFrame:
    """The buckets with lag and age of the backlog at their end, as they are stored."""
    buckets = in_buckets(happened, finest)
    left = backlog(in_scopes(found.where("consumer_group <> ''")), ends(buckets))
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
    over = F.col("finished_at")
    before = (
        Window.partitionBy(*KEYS)
        .orderBy("created_at", "partition_id", "seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    never = F.to_timestamp(F.lit(NEVER))
    oldest = F.coalesce(over, never) > F.coalesce(
        F.max(F.coalesce(over, never)).over(before), F.to_timestamp(F.lit("1970-01-01"))
    )
    empty = {"grain": F.lit(None).cast("string"), "bucket": F.lit(None).cast("timestamp")}

    def moment(frame: DataFrame, at: Column, kind: int, delta: int, oldest: Column, **values: Column) -> DataFrame:
        shown = [value.alias(name) for name, value in {**empty, **values}.items()]
        return frame.select(
            *KEYS,
            at.alias("at"),
            F.lit(kind).alias("kind"),
            F.lit(delta).alias("delta"),
            oldest.alias("oldest"),
            *shown,
        )

    nothing = F.lit(None).cast("timestamp")
    marked = found.withColumn("is_oldest", oldest)
    told = (
        moment(marked, F.col("created_at"), 1, 1, nothing)
        .union(moment(marked.where(over.isNotNull() & ~F.col("is_oldest")), over, 1, -1, nothing))
        .union(moment(marked.where(over.isNotNull() & F.col("is_oldest")), over, 1, -1, F.col("created_at")))
        .union(moment(marked.where(over.isNull() & F.col("is_oldest")), never, 1, 0, F.col("created_at")))
        .union(moment(moments, F.col("at"), 0, 0, nothing, grain=F.col("grain"), bucket=F.col("bucket")))
    )
    ordered = Window.partitionBy(*KEYS).orderBy("at", "kind")
    sofar = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    onward = ordered.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    waiting = (
        told.withColumn("lag", F.sum("delta").over(sofar))
        .withColumn("first", F.first("oldest", ignorenulls=True).over(onward))
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
    """Before this time nothing changes any more; None when nothing was rolled up yet."""
    database = Database(context.url)
    try:
        found = database.rows("pipelines/last_figures", pipeline="rollups", lake=str(context.lake.path))
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
