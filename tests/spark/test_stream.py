from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.support.queues import Queues
from tests.spark.support.streams import Batches, run, start, stored_offsets, stream
from tests.support.wait import wait_for


def test_a_stream_delivers_everything_once_in_bounded_batches(
    spark: SparkSession, queues: Queues, tmp_path: Path
) -> None:
    queues.fill("orders", partitions=10, per_partition=30)
    batches = run(stream(spark, queues, queue="orders", maxOffsetsPerTrigger=100), tmp_path / "checkpoint")
    assert batches.sizes == [100, 100, 100]
    assert batches.lanes() == {f"p{p}": list(range(1, 31)) for p in range(10)}


def test_a_restart_goes_on_where_the_checkpoint_stands(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    frame = stream(spark, queues, queue="orders")
    queues.fill("orders", partitions=2, per_partition=5)
    first = run(frame, tmp_path / "checkpoint")
    queues.fill("orders", partitions=3, per_partition=2)
    second = run(frame, tmp_path / "checkpoint")
    assert first.lanes() == {"p0": [1, 2, 3, 4, 5], "p1": [1, 2, 3, 4, 5]}
    assert second.lanes() == {"p0": [6, 7], "p1": [6, 7], "p2": [1, 2]}


def test_a_small_queue_among_large_ones_still_gets_full_batches(
    spark: SparkSession, queues: Queues, tmp_path: Path
) -> None:
    for _ in range(5):
        queues.fill("small", partitions=1, per_partition=10)
        queues.fill("large", partitions=2, per_partition=500)
    batches = run(stream(spark, queues, queue="small", maxOffsetsPerTrigger=20), tmp_path / "checkpoint")
    assert sum(batches.sizes) == 50
    assert max(batches.sizes) <= 20
    assert len(batches.sizes) <= 5


def test_traffic_of_other_queues_makes_no_batches(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    queues.fill("orders", partitions=1, per_partition=1)
    batches = Batches()
    query = start(
        stream(spark, queues, queue="orders"), batches, tmp_path / "checkpoint", processingTime="100 milliseconds"
    )
    try:
        wait_for(lambda: batches.sizes == [1])
        queues.fill("other", partitions=1, per_partition=100)
        queues.fill("orders", partitions=1, per_partition=1)
        wait_for(lambda: batches.sizes == [1, 1])
    finally:
        query.stop()
    assert len(batches.rows) == 2


def test_too_few_messages_wait_for_more_or_for_the_longest_delay(
    spark: SparkSession, queues: Queues, tmp_path: Path
) -> None:
    queues.fill("orders", partitions=1, per_partition=3)
    batches = Batches()
    frame = stream(spark, queues, queue="orders", minOffsetsPerTrigger=5, maxTriggerDelay="1h")
    query = start(frame, batches, tmp_path / "checkpoint", processingTime="100 milliseconds")
    try:
        wait_for(lambda: query.lastProgress is not None)
        assert batches.sizes == []
        queues.fill("orders", partitions=1, per_partition=2)
        wait_for(lambda: batches.sizes == [5])
    finally:
        query.stop()
    queues.fill("orders", partitions=1, per_partition=2)
    hasty = stream(spark, queues, queue="orders", minOffsetsPerTrigger=5, maxTriggerDelay="200ms")
    query = start(hasty, batches, tmp_path / "checkpoint", processingTime="100 milliseconds")
    try:
        wait_for(lambda: batches.sizes == [5, 2])
    finally:
        query.stop()


def test_an_offset_is_one_number_and_what_it_belongs_to(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    queues.fill("orders", partitions=50, per_partition=1)
    run(stream(spark, queues, queue="orders"), tmp_path / "checkpoint")
    (offset,) = stored_offsets(tmp_path / "checkpoint")
    assert offset["pos"] == queues.value("select position from queen.horizon")
    assert offset["database"] == queues.value("select queen.database_identity()")
