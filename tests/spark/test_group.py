"""A stream's progress shown as a consumer group."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.support.followers import ByHorizon
from tests.spark.support.queues import Queues
from tests.spark.support.streams import run, stream


def cursors(queues: Queues, group: str) -> dict[str, tuple[int, bool]]:
    """The cursor of each partition, and whether anything waits there."""
    rows = queues.rows(
        """select p.name, c.last_consumed_seq, c.ready_at is not null from queen.partition_consumers c
             join queen.partitions p on p.id = c.partition_id where c.consumer_group = %s and p.next_seq > 1""",
        group,
    )
    return {name: (seq, waiting) for name, seq, waiting in rows}


def test_the_cursor_of_the_group_follows_to_the_end(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    queues.fill("orders", partitions=3, per_partition=7)
    frame = stream(spark, queues, queue="orders", consumerGroup="lake", maxOffsetsPerTrigger=10)
    run(frame, tmp_path / "checkpoint")
    assert cursors(queues, "lake") == {"p0": (7, False), "p1": (7, False), "p2": (7, False)}


def test_a_group_shows_the_lag_of_a_stream_that_stopped(queues: Queues) -> None:
    queues.fill("orders", partitions=2, per_partition=4)
    with ByHorizon(queues, "orders", 100, consumerGroup="lake") as follower:
        follower.poll()
        queues.fill("orders", partitions=1, per_partition=3)
    assert cursors(queues, "lake") == {"p0": (4, True), "p1": (4, False)}


def test_a_stream_can_begin_where_a_group_stands(queues: Queues) -> None:
    queues.fill("orders", partitions=2, per_partition=4)
    with ByHorizon(queues, "orders", 100, consumerGroup="lake") as follower:
        follower.poll()
        queues.fill("orders", partitions=2, per_partition=1)
    with ByHorizon(queues, "orders", 100, consumerGroup="lake", startingOffsets="group") as successor:
        successor.poll()
    assert sorted(successor.seen) == [("p0", 5), ("p1", 5)]
