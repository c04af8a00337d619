"""Streams that begin at seqs of single partitions, and tasks that read from a replica."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from queen.spark.batch import BatchReader
from queen.spark.columns import MESSAGES
from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.options import source_options
from queen.spark.planning import Planner, Slice
from queen.spark.reading import read, require_same
from tests.spark.support.followers import ByHorizon
from tests.spark.support.queues import Queues
from tests.spark.test_data_loss import remove


def starting(queues: Queues, batch: int = 100, **lanes: int) -> ByHorizon:
    """A stream of `orders` from the seqs given."""
    return ByHorizon(queues, "orders", batch, startingOffsets=json.dumps({"orders": lanes}))


def seqs(follower: ByHorizon, partition: str) -> list[int]:
    return [seq for name, seq in follower.seen if name == partition]


def test_latest_is_settled_when_the_stream_begins(queues: Queues) -> None:
    queues.fill("orders", partitions=2, per_partition=3)
    with starting(queues, p0=-1) as follower:
        follower.poll()
        for _ in range(3):
            queues.push("orders", "p0", "new")
            follower.poll()
    assert seqs(follower, "p0") == [4, 5, 6]
    assert seqs(follower, "p1") == [1, 2, 3]


def test_what_comes_before_the_first_batch_is_read_too(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=3)
    with starting(queues, p0=-1) as follower:
        queues.push("orders", "p0", "new")
        follower.poll()
    assert follower.seen == [("p0", 4)]


def test_the_start_is_kept_in_the_position_until_it_is_passed(queues: Queues) -> None:
    queues.fill("orders", partitions=3, per_partition=10)
    with starting(queues, batch=5, p0=8, p2=-1) as follower:
        assert sorted(follower.offset["starts"].values()) == [8, 11]
        follower.poll()
        assert "starts" not in follower.offset
    assert [seqs(follower, name) for name in ("p0", "p1", "p2")] == [[8, 9, 10], list(range(1, 11)), []]


def test_a_start_ahead_of_the_queue_is_waited_for(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=3)
    with starting(queues, p0=6) as follower:
        for _ in range(4):
            follower.poll()
            queues.push("orders", "p0", "new")
        follower.poll()
    assert follower.seen == [("p0", 6), ("p0", 7)]


def test_retention_may_pass_the_start_of_a_stream_that_is_far_ahead(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=10)
    with starting(queues, p0=3) as follower:
        follower.poll()
        remove(queues, "p0", 8)
        queues.push("orders", "p0", "new")
        follower.poll()
    assert follower.seen == [("p0", seq) for seq in range(3, 12)]


def test_what_was_not_to_be_read_may_be_removed(queues: Queues) -> None:
    queues.fill("orders", partitions=2, per_partition=5)
    with starting(queues, p0=1, p1=-1) as follower:
        remove(queues, "p1", 5)
        follower.poll()
        assert follower.seen == [("p0", seq) for seq in range(1, 6)]
    with starting(queues, p0=1) as follower:
        remove(queues, "p0", 2)
        with pytest.raises(SparkError, match="partition 'p0' were removed"):
            follower.poll()


def test_zero_is_the_first_message_as_in_kafka(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=3)
    with starting(queues, p0=0) as follower:
        follower.poll()
    assert follower.seen == [("p0", 1), ("p0", 2), ("p0", 3)]
    remove(queues, "p0", 1)
    with pytest.raises(SparkError, match="its first is now seq 2"):
        starting(queues, p0=0)


def test_a_partition_that_is_not_there_is_named(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=3)
    with pytest.raises(SparkError, match="queue 'orders' has no partition 'p9'") as caught:
        starting(queues, p9=4)
    assert caught.value.code == "PARTITION_NOT_FOUND"


def test_a_replica_that_lags_is_not_read_from(queues: Queues) -> None:
    """To a task, a server whose horizon is below its slice is such a replica."""
    queues.fill("orders", partitions=1, per_partition=3)
    options = source_options({"url": queues.url, "queue": "orders"})
    database = Database(queues.url)
    planner = Planner(options, database)
    here, found = planner.here(), planner.queues()
    require_same(database, Slice(found, replace(here, pos=1), here.pos), patience=0)
    for part in (Slice(found, replace(here, pos=1), here.pos + 5), Slice(found, replace(here, pos=here.pos + 5))):
        with pytest.raises(SparkError, match=f"has only come to position {here.pos}, but {here.pos + 5} is") as caught:
            require_same(database, part, patience=0)
        assert caught.value.code == "REPLICA_BEHIND"
    (lane,) = planner.lanes(found)
    with pytest.raises(SparkError, match="partition 'p0' are not there yet") as caught:
        list(read(options, MESSAGES, Slice(found, here, lanes=[(lane[0], 1, 7)])))
    assert caught.value.code == "REPLICA_BEHIND"
    database.close()


def test_a_group_is_where_a_batch_begins_also_with_few_of_the_positions(queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=5)
    queues.fill("other", partitions=1, per_partition=200)
    queues.fill("orders", partitions=1, per_partition=5)
    queues.rows("select queen.subscribe('orders', 'lake', 'all', null)")
    queues.rows("select queen.fill_subscription('orders', 'lake')")
    queues.rows("update queen.partition_consumers set last_consumed_seq = 7 where consumer_group = 'lake' returning 1")
    options = source_options(
        {"url": queues.url, "queue": "orders", "startingOffsets": "group", "consumerGroup": "lake"}
    )
    reader = BatchReader(options, MESSAGES)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["seq"] for row in rows] == [8, 9, 10]
