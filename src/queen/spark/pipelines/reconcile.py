"""reconcile: a database beside its lake, or beside another database: by partition, then down to the ids that differ.

Each side is counted and summed up per partition; only partitions whose sums differ are looked at message by
message. Partitions are known by their names, messages by their transaction ids: a copy may have its own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from queen.spark.database import Database
from queen.spark.lake.opening import unsealed
from queen.spark.lake.tables import MESSAGES
from queen.spark.pipelines.definition import Context, Outcome, Period, pipeline
from queen.spark.pipelines.options import whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader

LANE = ("queue", "partition")
COMPARED = (*LANE, "transaction_id", "payload", "created_at", "seq")


@pipeline(
    "reconcile",
    summary="A database beside its lake or another database: by partition, then down to the ids that differ",
    reads=(MESSAGES,),
    options={"other": "", "queue": "", "shown": "1000"},
)
def reconcile(context: Context) -> Outcome:
    """Compare, and tell what differs."""
    ours, theirs = sides(context)
    compared = compare(checksums(ours), checksums(theirs)).cache()
    (lanes,) = compared.agg(
        f.count("*").alias("partitions"),
        f.sum(f.coalesce("left_messages", f.lit(0))).alias("left"),
        f.sum(f.coalesce("right_messages", f.lit(0))).alias("right"),
        f.count_if(~f.col("same")).alias("differing"),
    ).collect()
    context.progress.step("partitions", lanes.partitions, lanes.partitions)
    differing = compared.where(~f.col("same"))
    context.write("partitions", differing.drop("left_sum", "right_sum"), key="queue,partition")
    rows = differences(ours, theirs, differing).limit(whole(context.options, "shown"))
    shown = context.write("messages", rows, key="queue,partition,transaction_id") if lanes.differing else 0
    compared.unpersist()
    figures = {
        "partitions": lanes.partitions,
        "differing": lanes.differing,
        "left": lanes.left or 0,
        "right": lanes.right or 0,
        "messages_shown": shown,
    }
    return Outcome(lanes.partitions, figures)


def sides(context: Context) -> tuple[DataFrame, DataFrame]:
    """Our database, and what it is compared with: the lake from where the database still has messages, or another."""
    other, queue = context.options["other"], context.options["queue"]
    if other:
        left, right = (only(from_database(context, url, queue), context.period) for url in (context.url, other))
        return left, right
    reach = context.lake.reach(MESSAGES)
    pos = reach.pos if reach is not None and reach.pos is not None else 0
    lake = only(context.lake.read(context.spark, MESSAGES), context.period)
    kept = context.spark.createDataFrame(first_seqs(context.url), "partition_id long, first_seq long")
    lake = lake.join(f.broadcast(kept), "partition_id").where("seq >= first_seq")
    lake = lake.where(f.col("queue") == queue) if queue else lake
    ours = reader(context, context.url, queue).option("endingOffsets", str(pos)).load()
    sealed = any(file.sealed for file in context.lake.state().of(MESSAGES))
    opened = unsealed(lake.drop("first_seq")) if sealed else lake
    return only(ours, context.period).select(*COMPARED), opened.select(*COMPARED)


def from_database(context: Context, url: str, queue: str) -> DataFrame:
    """The messages of a database."""
    return reader(context, url, queue).load().select(*COMPARED)


def reader(context: Context, url: str, queue: str) -> DataFrameReader:
    """The connector on a database."""
    found = context.spark.read.format("queen").option("url", url).option("failOnDataLoss", "false")
    return found.option("queue", queue) if queue else found


def first_seqs(url: str) -> list[tuple[int, int]]:
    """Where each partition begins in the database."""
    database = Database(url)
    try:
        queues = [row["id"] for row in database.rows("queues")]
        return [(row["id"], row["first_seq"]) for row in database.rows("partitions", queues=queues)]
    finally:
        database.close()


def only(messages: DataFrame, period: Period) -> DataFrame:
    """The messages of a period."""
    bounds: list[Column] = []
    if period.start is not None:
        bounds.append(f.col("created_at") >= f.lit(period.start))
    if period.end is not None:
        bounds.append(f.col("created_at") < f.lit(period.end))
    return messages.where(reduce(lambda a, b: a & b, bounds)) if bounds else messages


def fingerprint() -> Column:
    """A number for a message that depends on its transaction id and payload."""
    text = f.concat_ws(":", "transaction_id", "payload")
    return f.conv(f.substring(f.md5(text), 1, 15), 16, 10).cast("decimal(20,0)")


def checksums(messages: DataFrame) -> DataFrame:
    """Count and sum by partition, whatever the order."""
    return messages.groupBy(*LANE).agg(f.count("*").alias("messages"), f.sum(fingerprint()).alias("sum"))


def compare(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    """Partitions of both sides, and whether they are the same."""
    left = ours.select(*LANE, f.col("messages").alias("left_messages"), f.col("sum").alias("left_sum"))
    right = theirs.select(*LANE, f.col("messages").alias("right_messages"), f.col("sum").alias("right_sum"))
    same = f.col("left_messages").eqNullSafe(f.col("right_messages")) & f.col("left_sum").eqNullSafe(f.col("right_sum"))
    return left.join(right, [*LANE], "full_outer").withColumn("same", same)


def differences(ours: DataFrame, theirs: DataFrame, lanes: DataFrame) -> DataFrame:
    """The messages that differ in the partitions given: only here, only there, or not alike."""
    wanted = f.broadcast(lanes.select(*LANE))
    sides: Mapping[str, DataFrame] = {
        side: frame.join(wanted, [*LANE], "left_semi").select(
            *LANE, "transaction_id", f.col("seq").alias(f"{side}_seq"), fingerprint().alias(f"{side}_sum")
        )
        for side, frame in (("left", ours), ("right", theirs))
    }
    joined = sides["left"].join(sides["right"], [*LANE, "transaction_id"], "full_outer")
    found = f.when(f.col("right_sum").isNull(), "only left").when(f.col("left_sum").isNull(), "only right")
    kinds = joined.withColumn("difference", found.otherwise("different"))
    unlike = ~f.col("left_sum").eqNullSafe(f.col("right_sum"))
    return kinds.where(unlike).select(*LANE, "transaction_id", "left_seq", "right_seq", "difference")
