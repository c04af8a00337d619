"""triage: dead letters and failed deliveries in clusters of the same error, queue and version.

Ids, numbers, addresses and quoted parts of an error are left out, as `queen.normalise_error` does. The version is a
field of the payload. The delivery log keeps no error texts, so deliveries that failed and recovered are told apart
by their outcome.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.pipelines.definition import Context, Outcome, pipeline
from queen.spark.pipelines.journeys import LANE
from queen.spark.pipelines.rollups import within
from queen.spark.pipelines.tables import TABLES, read_tables

CLUSTER: Final = ("kind", "queue", "error", "version")
EXAMPLES: Final = 3
SLOTS: Final = 24
MOST: Final = 500
PLACEHOLDER: Final = re.compile(r"<(?:id|x|n)>")
FAILED: Final = {"failed": "failed, then recovered", "expired": "lease ran out, then recovered"}


@pipeline(
    "triage",
    summary="Dead letters and failed deliveries by error, queue and version, with the command to redrive them",
    reads=TABLES,
    options={"version": "version"},
)
def triage(context: Context) -> Outcome:
    """Cluster what failed in the period."""
    messages, deliveries, letters = read_tables(context)
    field = context.options["version"]
    context.progress.step("clustering", 0, 1)
    failures = within(
        died(letters, field).unionByName(recovered(messages, deliveries, letters, field)), "failed_at", context.period
    ).persist()
    try:
        span = failures.agg(F.min("failed_at"), F.max("failed_at")).first()
        found = list(described(failures, span[0], span[1])) if span and span[0] else []
    finally:
        failures.unpersist()
    rows = context.write("clusters", found, key="kind,queue,version,error")
    context.progress.step("clustering", 1, 1)
    dead = [cluster for cluster in found if cluster["kind"] == "dead"]
    return Outcome(
        rows,
        {
            "clusters": len(dead),
            "dead_letters": sum(cluster["count"] for cluster in dead),
            "recovered": sum(cluster["count"] for cluster in found if cluster["kind"] == "recovered"),
            "rising": sum(cluster["trend"] == "rising" for cluster in dead),
        },
    )


def normalised(error: Column) -> Column:
    """The part of an error that stays the same from case to case; the same as `queen.normalise_error`."""
    text = F.split(error, "\n")[0]
    for pattern, stands_for in (
        (r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
        (r"(?i)0x[0-9a-f]+", "<x>"),
        (r"'[^']*'|\"[^\"]*\"", "<x>"),
        (r"\d+([.,:]\d+)*", "<n>"),
    ):
        text = F.regexp_replace(text, pattern, stands_for)
    return F.substring(text, 1, 200)


def version_of(payload: Column, field: str) -> Column:
    """The version a payload names, or nothing."""
    return F.coalesce(F.get_json_object(payload, f"$['{field}']"), F.lit(""))


def died(letters: DataFrame, field: str) -> DataFrame:
    """Dead letters as failures."""
    return letters.where("queue is not null").select(
        F.lit("dead").alias("kind"),
        "queue",
        normalised(F.col("error_message")).alias("error"),
        version_of(F.col("payload"), field).alias("version"),
        "consumer_group",
        "partition",
        "failed_at",
        "id",
        "payload",
        F.col("error_message").alias("text"),
        F.col("redriven_at").isNotNull().alias("redriven"),
    )


def recovered(messages: DataFrame, deliveries: DataFrame, letters: DataFrame, field: str) -> DataFrame:
    """Failed deliveries whose message did not become a dead letter.

    The message that failed is the first of the next batch of the lane.
    """
    lane = Window.partitionBy(*LANE).orderBy("leased_at", "ended_at", "batch_from")
    following = F.lead("batch_from").over(lane)
    seq = F.when(following.between(F.col("batch_from"), F.col("batch_to")), following).otherwise(F.col("batch_from"))
    stumbled = deliveries.withColumn("seq", seq).where(F.col("outcome").isin(*FAILED)).where("queue is not null")
    alive = stumbled.join(letters.select(*LANE, "seq").distinct(), [*LANE, "seq"], "left_anti")
    texts = F.create_map(*[F.lit(word) for pair in FAILED.items() for word in pair])
    return (
        alive.drop("queue", "partition")
        .join(messages.select("queue", "partition", "partition_id", "seq", "id", "payload"), ["partition_id", "seq"])
        .select(
            F.lit("recovered").alias("kind"),
            "queue",
            texts[F.col("outcome")].alias("error"),
            version_of(F.col("payload"), field).alias("version"),
            "consumer_group",
            "partition",
            F.col("ended_at").alias("failed_at"),
            "id",
            "payload",
            F.lit("").alias("text"),
            F.lit(False).alias("redriven"),
        )
    )


def clusters(failures: DataFrame) -> DataFrame:
    """How many of each kind, since when and until when, and some to look at."""
    newest = Window.partitionBy(*CLUSTER).orderBy(F.desc("failed_at"), "id")
    example = F.when(F.col("place") <= EXAMPLES, F.struct("failed_at", "id", "partition", "text", "payload"))
    return (
        failures.withColumn("place", F.row_number().over(newest))
        .groupBy(*CLUSTER)
        .agg(
            F.count("*").alias("count"),
            F.sum(F.col("redriven").cast("long")).alias("redriven"),
            F.countDistinct("queue", "partition").alias("partitions"),
            F.sort_array(F.collect_set("consumer_group")).alias("groups"),
            F.min("failed_at").alias("first_seen"),
            F.max("failed_at").alias("last_seen"),
            F.sort_array(F.collect_list(example), asc=False).alias("examples"),
        )
    )


def timeline(failures: DataFrame, start: datetime, end: datetime) -> DataFrame:
    """How many of each cluster fell into each of SLOTS equal lengths of time."""
    length = max((end - start) / SLOTS, timedelta(microseconds=1))
    since = (F.unix_micros("failed_at") - F.unix_micros(F.lit(start))) / int(length / timedelta(microseconds=1) or 1)
    slot = F.least(F.floor(since), F.lit(SLOTS - 1)).cast("int")
    return failures.withColumn("slot", slot).groupBy(*CLUSTER, "slot").count()


def described(failures: DataFrame, start: datetime, end: datetime) -> Iterator[dict[str, Any]]:
    """The largest clusters with their trend and what to do about them."""
    largest = [row.asDict(recursive=True) for row in clusters(failures).orderBy(F.desc("count")).limit(MOST).collect()]
    counts: dict[tuple[str, ...], list[int]] = {}
    for row in timeline(failures, start, end).toLocalIterator():
        key = tuple(row[name] for name in CLUSTER)
        counts.setdefault(key, [0] * SLOTS)[row["slot"]] = row["count"]
    for cluster in largest:
        slots = counts[tuple(cluster[name] for name in CLUSTER)]
        yield {**cluster, "slots": slots, "trend": trend(slots), "redrive": commands(cluster, largest)}


def trend(slots: Sequence[int]) -> str:
    """Whether the last quarter of the time has more or fewer than its share; new ones rise."""
    last = len(slots) // 4
    recent, before = sum(slots[-last:]), sum(slots[:-last])
    expected = before / (len(slots) - last) * last
    if recent > 2 * expected + 1:
        return "rising"
    return "falling" if expected > 2 * recent + 1 else "steady"


def commands(cluster: dict[str, Any], among: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What redrives a cluster, a command per group; `also`: dead letters of other clusters it would take along."""
    if cluster["kind"] != "dead":
        return []
    text = max(PLACEHOLDER.split(cluster["error"]), key=len).strip()
    also = sum(
        other["count"]
        for other in among
        if other is not cluster
        and other["kind"] == "dead"
        and other["queue"] == cluster["queue"]
        and text in other["error"]
        and set(other["groups"]) & set(cluster["groups"])
    )
    return [
        {
            "group": group,
            "command": shlex.join(
                ["queen", "dlq", "redrive", "--queue", cluster["queue"], "--group", group]
                + (["--error", text] if text else [])
            ),
            "also": also,
        }
        for group in cluster["groups"]
    ]
