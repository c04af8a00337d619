"""Head-of-line blocking: how long messages waited because others of their lane were being worked on."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.pipelines.journeys import LANE, handled

MILLISECOND = 1000
LAST, BEGINS, FIRST = 0, 1, 2


def waits(messages: DataFrame, deliveries: DataFrame, letters: DataFrame) -> DataFrame:
    """Each message a group got, with blocked_ms: the part of its wait during which its lane was taken.

    A lane has one batch out at a time, so the time it was taken up to a moment is a running sum.
    """
    waited = messages.select("queue", "partition", "partition_id", "seq", "created_at").join(
        handled(deliveries, letters).where("first_leased_at is not null"), ["partition_id", "seq"]
    )
    blocked = (F.col("taken_at_last") - F.col("taken_at_first")) / MILLISECOND
    return waited.join(taken(waited, deliveries), [*LANE, "seq"]).withColumn("blocked_ms", blocked)


def taken(waited: DataFrame, deliveries: DataFrame) -> DataFrame:
    """For how many microseconds the lane of each message had been taken when it was stored, and when handed out.

    Among what happens at the same time, being handed out comes first, then batches begin, then messages are stored.
    """
    ordered = Window.partitionBy(*LANE).orderBy("leased_at", "ended_at")
    begins, ends = F.unix_micros("leased_at"), F.unix_micros("ended_at")
    sofar = F.coalesce(F.sum(ends - begins).over(ordered.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    nothing = F.lit(None).cast("long")
    batch = {"at": begins, "kind": F.lit(BEGINS), "seq": nothing, "since": begins, "until": ends, "sofar": sofar}
    moments = F.array(
        F.struct(F.unix_micros("first_leased_at").alias("at"), F.lit(LAST).alias("kind")),
        F.struct(F.unix_micros("created_at").alias("at"), F.lit(FIRST).alias("kind")),
    )
    empty = [nothing.alias(name) for name in ("since", "until", "sofar")]
    every = deliveries.select(*LANE, *[value.alias(name) for name, value in batch.items()]).unionByName(
        waited.select(*LANE, "seq", F.inline(moments)).select("*", *empty)
    )
    latest = Window.partitionBy(*LANE).orderBy("at", "kind").rowsBetween(Window.unboundedPreceding, 0)
    last = [F.last(name, ignorenulls=True).over(latest).alias(name) for name in ("since", "until", "sofar")]
    length = F.coalesce(F.col("sofar") + F.least("at", "until") - F.col("since"), F.lit(0))
    known = every.select(*LANE, "at", "kind", "seq", *last).where("seq is not null").withColumn("length", length)
    return known.groupBy(*LANE, "seq").agg(
        F.max(F.when(F.col("kind") == LAST, F.col("length"))).alias("taken_at_last"),
        F.max(F.when(F.col("kind") == FIRST, F.col("length"))).alias("taken_at_first"),
    )


def blocked_lanes(
    messages: DataFrame, deliveries: DataFrame, letters: DataFrame, limit_ms: float, least: int
) -> DataFrame:
    """Lanes in which at least `least` messages waited for `limit_ms` or longer behind others, and behind which."""
    found = waits(messages, deliveries, letters).where(F.col("blocked_ms") >= limit_ms)
    lanes = (
        found.groupBy("queue", "partition", *LANE)
        .agg(
            F.count("*").alias("messages"),
            F.sum("blocked_ms").alias("blocked_ms"),
            F.max("blocked_ms").alias("longest_ms"),
            F.percentile("blocked_ms", F.lit(0.5)).alias("median_ms"),
        )
        .where(F.col("messages") >= least)
    )
    length = (F.unix_micros("ended_at") - F.unix_micros("leased_at")) / MILLISECOND
    held = deliveries.groupBy(*LANE, "batch_from").agg(F.sum(length).alias("held_ms"), F.count("*").alias("attempts"))
    worst = held.groupBy(*LANE).agg(F.max(F.struct("held_ms", "batch_from", "attempts")).alias("worst"))
    return (
        lanes.join(worst, list(LANE))
        .select(
            "queue",
            "partition",
            "consumer_group",
            "messages",
            "blocked_ms",
            "longest_ms",
            "median_ms",
            F.col("worst.batch_from").alias("held_by"),
            F.col("worst.held_ms").alias("held_ms"),
            F.col("worst.attempts").alias("attempts"),
        )
        .orderBy(F.desc("blocked_ms"))
    )
