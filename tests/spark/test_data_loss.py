"""Retention removes messages under a running query."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queen.spark.errors import SparkError
from tests.spark.support.followers import ByHorizon
from tests.spark.support.queues import Queues
from tests.spark.support.streams import run, stream


def remove(queues: Queues, partition: str, up_to: int) -> None:
    """As retention does it."""
    queues.rows(
        """select queen.remove_ranges(array[id], array[%s], array[%s], clock_timestamp()) from queen.partitions
            where name = %s for no key update""",
        up_to,
        up_to,
        partition,
    )


def test_messages_removed_before_they_were_read_end_the_query(
    spark: SparkSession, queues: Queues, tmp_path: Path
) -> None:
    queues.fill("orders", partitions=2, per_partition=5)
    frame = stream(spark, queues, queue="orders")
    run(frame, tmp_path / "checkpoint")
    queues.fill("orders", partitions=2, per_partition=5)
    remove(queues, "p1", 7)
    with pytest.raises(Exception, match="messages of queue 'orders', partition 'p1' were removed before") as caught:
        run(frame, tmp_path / "checkpoint")
    assert "failOnDataLoss=false" in str(caught.value)
    tolerant = run(stream(spark, queues, queue="orders", failOnDataLoss="false"), tmp_path / "checkpoint")
    assert tolerant.lanes() == {"p0": [6, 7, 8, 9, 10], "p1": [8, 9, 10]}


def test_messages_removed_after_they_were_read_are_no_loss(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=5)
    with ByHorizon(queues, "orders", 100) as follower:
        follower.poll()
        remove(queues, "p0", 5)
        queues.push("orders", "p0", "next")
        follower.poll()
    assert follower.seen == [("p0", seq) for seq in range(1, 7)]


def test_messages_removed_before_the_stream_began_are_no_loss(queues: Queues) -> None:
    queues.fill("orders", partitions=2, per_partition=5)
    remove(queues, "p1", 3)
    with ByHorizon(queues, "orders", 3) as follower:
        follower.poll()
    assert sorted(follower.seen) == [("p0", seq) for seq in range(1, 6)] + [("p1", 4), ("p1", 5)]


def test_a_message_deleted_by_hand_is_no_loss(queues: Queues) -> None:
    queues.push("orders", "p0", 1, transaction_id="t-1")
    queues.push("orders", "p0", 2, transaction_id="t-2")
    with ByHorizon(queues, "orders", 100) as follower:
        queues.rows("select queen.delete_message(id, 't-1') from queen.partitions where name = 'p0'")
        follower.poll()
    assert follower.seen == [("p0", 2)]


def test_a_loss_between_planning_and_reading_is_noticed(queues: Queues, caplog: pytest.LogCaptureFixture) -> None:
    queues.fill("orders", partitions=1, per_partition=5)
    with ByHorizon(queues, "orders", 100) as follower:
        end = follower.reader.latestOffset(follower.offset, follower.reader.getDefaultReadLimit())
        (part,) = follower.reader.partitions(follower.offset, end)
        remove(queues, "p0", 2)
        with pytest.raises(SparkError, match="partition 'p0' were removed") as caught:
            list(follower.reader.read(part))
    assert caught.value.code == "DATA_LOST"
    with ByHorizon(queues, "orders", 100, failOnDataLoss="false") as tolerant, caplog.at_level(logging.WARNING):
        tolerant.offset = follower.offset
        tolerant.poll()
    assert tolerant.seen == [("p0", 3), ("p0", 4), ("p0", 5)]
    assert "were removed before they were read" in caplog.text


def test_a_queue_that_was_cleared_is_a_loss(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=5)
    with ByHorizon(queues, "orders", 100) as follower:
        queues.rows("select queen.clear_queue('orders')")
        with pytest.raises(SparkError, match="were removed before they were read"):
            follower.poll()


def test_the_loss_of_exactly_the_next_message_is_noticed(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=5)
    with ByHorizon(queues, "orders", 100) as follower:
        follower.poll()
        queues.push("orders", "p0", "next")
        remove(queues, "p0", 6)
        with pytest.raises(SparkError, match="were removed before they were read"):
            follower.poll()
