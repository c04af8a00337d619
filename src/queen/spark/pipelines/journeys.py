"""What became of every message in every group: when it was first handed out, when it was finished, whether it died.

The delivery log has a row per batch; these transforms bring it down to single messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

LANE = ("partition_id", "consumer_group")
FINISHED = ("completed", "partial")
MILLISECOND = 1000


def milliseconds(since: Column, until: Column) -> Column:
    """The time between, to the microsecond."""
    return (F.unix_micros(until) - F.unix_micros(since)) / MILLISECOND


def handled(deliveries: DataFrame, dead_letters: DataFrame) -> DataFrame:
    """Each message a group got: first_leased_at, finished_at (null: not yet), attempts, dead.

    A batch that completed finished all its messages. One that failed, ran out or was handed back finished
    those before the next batch of its lane; the last of a lane those up to its newest dead letter.
    """
    ordered = Window.partitionBy(*LANE).orderBy("leased_at", "ended_at", "batch_from")
    died = dead_letters.groupBy(*LANE, F.col("failed_at").alias("ended_at")).agg((F.max("seq") + 1).alias("died_to"))
    after = F.coalesce("next_from", "died_to", "batch_from")
    reach = (
        F.when(F.col("outcome").isin(*FINISHED), F.col("batch_to") + 1)
        .when(F.col("outcome") == "moved", F.col("batch_from"))
        .otherwise(F.greatest("batch_from", F.least(F.col("batch_to") + 1, after)))
    )
    batches = (
        deliveries.where("batch_to >= batch_from")
        .withColumn("next_from", F.lead("batch_from").over(ordered))
        .join(died, [*LANE, "ended_at"], "left")
        .withColumn("reach", reach)
    )
    single = batches.select(
        *LANE, "leased_at", "ended_at", "reach", F.explode(F.sequence("batch_from", "batch_to")).alias("seq")
    )
    delivered = single.groupBy(*LANE, "seq").agg(
        F.min("leased_at").alias("first_leased_at"),
        F.min(F.when(F.col("seq") < F.col("reach"), F.col("ended_at"))).alias("passed_at"),
        F.count("*").alias("attempts"),
    )
    gone = dead_letters.groupBy(*LANE, "seq").agg(F.min("failed_at").alias("died_at"))
    return delivered.join(gone, [*LANE, "seq"], "full").select(
        *LANE,
        "seq",
        "first_leased_at",
        F.coalesce("passed_at", "died_at").alias("finished_at"),
        F.coalesce("attempts", F.lit(0)).alias("attempts"),
        F.col("died_at").isNotNull().alias("dead"),
    )


def journeys(
    messages: DataFrame, deliveries: DataFrame, dead_letters: DataFrame, known: Sequence[tuple[str, str]] = ()
) -> DataFrame:
    """Each message in each group its queue has, with what became of it there; group '' in a queue without any.

    A group is known by what was handed out to it; `known`: queues and groups of which that is not among these rows.
    """
    groups = (
        deliveries.select("queue", "consumer_group")
        .union(dead_letters.select("queue", "consumer_group"))
        .where("queue is not null")
    )
    if known:
        groups = groups.union(messages.sparkSession.createDataFrame(list(known), groups.schema))
    each = messages.select(
        "queue", "partition", "partition_id", "seq", "created_at", F.octet_length("payload").alias("bytes")
    )
    every = each.join(F.broadcast(groups.distinct()), "queue", "left").fillna("", ["consumer_group"])
    return every.join(handled(deliveries, dead_letters), [*LANE, "seq"], "left").fillna(False, ["dead"])
