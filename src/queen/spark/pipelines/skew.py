"""skew: partitions and keys that get far more than the others, and lanes in which messages had to wait for others.

Something is hot when it has `factor` times as many messages as the median of its kind and at least `share` of all,
and more than chance explains. A lane is blocked when `messages` messages waited `blocked` or longer while
others of their lane were being worked on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.errors import SparkError
from queen.spark.pipelines.blocking import blocked_lanes
from queen.spark.pipelines.definition import Context, Outcome, pipeline
from queen.spark.pipelines.payloads import sampled, valued
from queen.spark.pipelines.rollups import seconds, within
from queen.spark.pipelines.tables import TABLES, read_tables

SLOTS: Final = 48
ROWS_DRAWN: Final = 20
LEAST: Final = 30
MANY: Final = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something counts."""

    factor: float
    share: float
    blocked: float
    messages: int

    @classmethod
    def of(cls, context: Context) -> Limits:
        """Those of the options."""
        options = context.options
        try:
            factor, share = float(options["factor"]), float(options["share"])
            messages = int(options["messages"])
        except ValueError as error:
            raise SparkError("INVALID_OPTION", f"options factor, share and messages must be numbers: {error}") from None
        return cls(factor, share, seconds(options["blocked"]) * 1000, messages)


@pipeline(
    "skew",
    summary="Hot partitions and keys, blocked lanes, and how to split them",
    reads=TABLES,
    steady=True,
    options={"factor": "4", "share": "0.02", "blocked": "60 seconds", "messages": "10", "keys": ""},
)
def skew(context: Context) -> Outcome:
    """Look for what is uneven in the period."""
    limits = Limits.of(context)
    messages, deliveries, letters = read_tables(context)
    chosen = within(messages, "created_at", context.period).persist()
    try:
        context.progress.step("weighing partitions", 0, 3)
        counts = by_partition(chosen)
        rows = context.write("queues", evenness(counts), key="queue")
        hot = [row.asDict() for row in hottest(counts, ["queue"], limits).collect()]
        fields = sampled(chosen.where("not coalesce(is_encrypted, false)"))
        splits = {(each["queue"], each["partition"]): each for each in suggested(chosen, hot, fields.names(), limits)}
        found = [{**each, "split": splits.get((each["queue"], each["partition"]))} for each in hot]
        rows += context.write("hot_partitions", found, key="queue,partition")
        context.progress.step("weighing keys", 1, 3)
        keys = hot_keys(chosen, fields.keys(context.options["keys"]), limits)
        rows += context.write("hot_keys", keys, key="queue,field,key")
        context.progress.step("looking for blocked lanes", 2, 3)
        lanes = blocked_lanes(chosen, deliveries, letters, limits.blocked, limits.messages)
        stuck = [row.asDict() for row in lanes.collect()]
        rows += context.write("blocked", stuck, key="queue,partition,consumer_group")
        rows += context.write("heat", heat(chosen), key="queue")
        context.progress.step("looking for blocked lanes", 3, 3)
    finally:
        chosen.unpersist()
    return Outcome(rows, {"hot_partitions": len(hot), "hot_keys": len(keys), "blocked_lanes": len(stuck)})


def by_partition(messages: DataFrame) -> DataFrame:
    """How much each partition got."""
    return messages.groupBy("queue", "partition").agg(
        F.count("*").alias("messages"), F.sum(F.octet_length("payload")).alias("bytes")
    )


def evenness(counts: DataFrame) -> DataFrame:
    """How even each queue is: Gini 0 when all partitions get the same, near 1 when one gets everything.

    Partitions with as many messages are one row, so that there is little to put in order: of a million partitions with
    up to a thousand messages each, a thousand rows.
    """
    alike = counts.groupBy("queue", "messages").agg(F.count("*").alias("n"), F.sum("bytes").alias("bytes"))
    rising = Window.partitionBy("queue").orderBy("messages").rowsBetween(Window.unboundedPreceding, -1)
    below = F.coalesce(F.sum("n").over(rising), F.lit(0))
    ranks = F.col("n") * below + F.col("n") * (F.col("n") + 1) / 2
    n, total = F.sum("n"), F.sum(F.col("n") * F.col("messages"))
    gini = 2 * F.sum(F.col("ranks") * F.col("messages")) / (n * total) - (n + 1) / n
    return (
        alike.withColumn("ranks", ranks)
        .groupBy("queue")
        .agg(
            n.alias("partitions"),
            total.alias("messages"),
            F.sum("bytes").alias("bytes"),
            gini.alias("gini"),
            F.max("messages").alias("largest"),
            F.percentile("messages", F.lit(0.5), F.col("n")).alias("median"),
        )
    )


def hottest(counts: DataFrame, kind: Sequence[str], limits: Limits) -> DataFrame:
    """What has far more messages than the others of its kind."""
    alike = counts.groupBy(*kind).agg(
        F.sum("messages").alias("total"),
        F.count("*").alias("others"),
        F.percentile("messages", F.lit(0.5)).alias("median"),
    )
    return (
        counts.join(alike, list(kind))
        .withColumn("share", F.col("messages") / F.col("total"))
        .withColumn("times", F.col("messages") / F.col("median"))
        .where(is_hot(limits))
        .drop("total")
        .orderBy(F.desc("share"))
    )


def is_hot(limits: Limits) -> Column:
    """Far more than the median, a good part of all, and more than chance explains."""
    messages, median = F.col("messages"), F.col("median")
    return (
        (F.col("others") > 2)
        & (messages >= LEAST)
        & (messages >= limits.factor * median)
        & (messages >= median + 6 * F.sqrt(median))
        & (F.col("share") >= limits.share)
    )


def hot_keys(messages: DataFrame, keys: Mapping[str, Sequence[str]], limits: Limits) -> list[dict[str, Any]]:
    """Values of payload fields that far more messages carry than others."""
    counts = valued(messages, keys).groupBy("queue", "field", "key").agg(F.count("*").alias("messages"))
    return [row.asDict() for row in hottest(counts, ["queue", "field"], limits).collect()]


def suggested(
    messages: DataFrame, hot: Sequence[Mapping[str, Any]], fields: Mapping[str, Sequence[str]], limits: Limits
) -> list[dict[str, Any]]:
    """For each hot partition the coarsest field of its payloads that would break it up, or else what does most."""
    if not hot:
        return []
    names = messages.sparkSession.createDataFrame(
        [(each["queue"], each["partition"]) for each in hot], "queue string, partition string"
    )
    mine = messages.join(F.broadcast(names), ["queue", "partition"])
    parts = valued(mine, fields).groupBy("queue", "partition", "field", "key").count()
    rows = parts.groupBy("queue", "partition", "field").agg(
        F.count("*").alias("lanes"), F.max("count").alias("largest")
    )
    ways: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows.collect(), key=lambda row: (row["lanes"], row["largest"], row["field"])):
        if 2 <= row["lanes"] <= MANY:
            ways[row["queue"], row["partition"]].append(row)
    weights = {(each["queue"], each["partition"]): each for each in hot}
    return [split(weights[lane], found, limits) for lane, found in ways.items()]


def split(hot: Mapping[str, Any], ways: Sequence[Row], limits: Limits) -> dict[str, Any]:
    """The best of the ways to split a hot partition; they come with the coarsest first."""
    enough = [way for way in ways if way["largest"] <= limits.factor * hot["median"]]
    best = enough[0] if enough else min(ways, key=lambda way: way["largest"])
    share = best["largest"] / hot["messages"]
    lane = {name: hot[name] for name in ("queue", "partition")}
    return {**lane, "field": best["field"], "lanes": best["lanes"], "largest_share": share, "enough": bool(enough)}


def heat(messages: DataFrame) -> Iterator[dict[str, Any]]:
    """How many messages the largest partitions of each queue got, by length of time."""
    span = messages.agg(F.unix_micros(F.min("created_at")), F.unix_micros(F.max("created_at"))).first()
    if span is None or span[0] is None:
        return
    length = max((span[1] - span[0]) // SLOTS + 1, 1)
    largest = by_partition(messages).withColumn(
        "place", F.row_number().over(Window.partitionBy("queue").orderBy(F.desc("messages"), "partition"))
    )
    slot = F.floor((F.unix_micros("created_at") - span[0]) / length).cast("int")
    counts = (
        messages.join(F.broadcast(largest.where(F.col("place") <= ROWS_DRAWN)), ["queue", "partition"])
        .groupBy("queue", "partition", "place", slot.alias("slot"))
        .count()
    )
    maps: dict[str, dict[tuple[int, str], list[int]]] = {}
    for row in counts.toLocalIterator():
        lane = maps.setdefault(row["queue"], {}).setdefault((row["place"], row["partition"]), [0] * SLOTS)
        lane[row["slot"]] = row["count"]
    for queue, lanes in sorted(maps.items()):
        yield {
            "queue": queue,
            "since_us": span[0],
            "slot_seconds": length / 1_000_000,
            "partitions": [name for _, name in sorted(lanes)],
            "counts": [lanes[place] for place in sorted(lanes)],
        }
