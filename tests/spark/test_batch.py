from __future__ import annotations

import json
import re

import pytest
from pyspark.sql import DataFrame, SparkSession

from queen.spark.columns import MESSAGES
from queen.spark.database import Database
from queen.spark.errors import SparkError
from tests.spark.support.queues import Queues


def read(spark: SparkSession, queues: Queues, **options: object) -> DataFrame:
    reader = spark.read.format("queen").option("url", queues.url)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def numbers(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["p"], row["n"]) for row in (json.loads(r["payload"]) for r in frame.select("payload").collect()))


def test_a_queue_is_a_table_with_every_field_of_a_message(spark: SparkSession, queues: Queues) -> None:
    trace = "0190a1b2-0000-7000-8000-000000000001"
    queues.push("orders", "a", {"n": 1}, transaction_id="t-1", trace_id=trace)
    queues.push("orders", "b", "text")
    frame = read(spark, queues, queue="orders")
    assert frame.schema == MESSAGES
    first, second = frame.orderBy("partition").collect()
    stored = queues.rows("select partition_id, seq, id::text, created_at from queen.messages order by pos")
    assert (first["partition_id"], first["seq"], first["id"]) == stored[0][:3]
    assert (first["queue"], first["partition"]) == ("orders", "a")
    assert (first["transaction_id"], first["trace_id"]) == ("t-1", trace)
    assert json.loads(first["payload"]) == {"n": 1}
    assert first["created_at"].timestamp() == stored[0][3].timestamp()
    assert (second["transaction_id"], second["payload"], second["parent_id"]) == (stored[1][2], '"text"', None)


def test_only_the_queues_asked_for_are_read(spark: SparkSession, queues: Queues) -> None:
    for queue in ("orders.new", "orders.old", "other"):
        queues.push(queue, "a", queue)
    assert read(spark, queues, queue="orders.new, other").count() == 2
    assert read(spark, queues, queuePattern="orders[.].*").count() == 2
    assert read(spark, queues, namespace="orders").count() == 2
    assert read(spark, queues, subscribe="orders.new, other").count() == 2
    assert read(spark, queues, subscribePattern="orders[.].*").count() == 2
    assert read(spark, queues).count() == 3
    assert read(spark, queues, queuePattern="nothing.*").count() == 0


def test_only_the_columns_asked_for_are_read(spark: SparkSession, queues: Queues) -> None:
    queues.fill("orders", partitions=2, per_partition=3)
    frame = read(spark, queues, queue="orders", columns="seq, partition")
    assert frame.columns == ["seq", "partition"]
    assert sorted(map(tuple, frame.collect())) == [(n, f"p{p}") for n in (1, 2, 3) for p in (0, 1)]
    given = spark.read.format("queen").option("url", queues.url).schema("payload string, seq bigint").load()
    assert sorted(row["seq"] for row in given.collect()) == [1, 1, 2, 2, 3, 3]


def test_conditions_are_taken_over_by_the_database(spark: SparkSession, queues: Queues) -> None:
    queues.fill("orders", partitions=3, per_partition=10)
    queues.fill("other", partitions=1, per_partition=5)
    (middle,) = queues.rows("select created_at from queen.messages order by pos offset 12 limit 1")[0]
    everything = read(spark, queues)
    for condition, expected in [
        ("partition = 'p1'", 10),
        ("partition in ('p0', 'p2') and queue = 'orders'", 20),
        ("queue = 'other'", 5),
        ("seq > 8", 6),
        ("seq between 2 and 3 and partition = 'p2'", 2),
        (f"created_at >= '{middle.isoformat()}' and queue = 'other'", 5),
        ("queue = 'nothing'", 0),
    ]:
        found = everything.where(condition)
        assert len(found.collect()) == expected, condition
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert " Filter " not in plan, (condition, plan)


def test_conditions_hold_between_positions_too(spark: SparkSession, queues: Queues) -> None:
    queues.fill("orders", partitions=4, per_partition=10)
    queues.fill("other", partitions=1, per_partition=5)
    (first, last) = queues.rows("select min(pos), max(pos) + 1 from queen.messages")[0]
    for between in ({"startingOffsets": first}, {"endingOffsets": last}):
        everything = read(spark, queues, **between)
        for condition, expected in [
            ("queue = 'orders' and partition = 'p1'", 10),
            ("partition in ('p2', 'p3')", 20),
            ("seq > 8", 8),
            ("seq between 2 and 3 and partition = 'p3'", 2),
            ("queue = 'other'", 5),
        ]:
            assert len(everything.where(condition).collect()) == expected, (between, condition)


def test_a_session_without_push_down_still_reads(spark: SparkSession, queues: Queues) -> None:
    queues.fill("orders", partitions=2, per_partition=2)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert read(spark, queues, queue="orders").where("partition = 'p1'").count() == 2
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_offsets_bound_what_is_read(spark: SparkSession, queues: Queues) -> None:
    queues.fill("orders", partitions=3, per_partition=10)
    half = queues.rows("select pos from queen.messages order by pos offset 15 limit 1")[0][0]
    by_seq = json.dumps({"orders": {"p0": 4, "p1": -1}})
    until = json.dumps({"orders": {"p0": 6, "p2": 3}})
    for options, expected in [
        ({"startingOffsets": half}, 15),
        ({"startingOffsets": json.dumps({"pos": half}), "endingOffsets": half + 5}, 5),
        ({"startingOffsets": by_seq, "endingOffsets": until}, 2 + 0 + 2),
        ({"assign": json.dumps({"orders": ["p1"]})}, 10),
        ({"startingOffsets": "latest"}, 0),
        ({"endingTimestamp": "2000-01-01"}, 0),
        ({"startingTimestamp": "2000-01-01T00:00:00Z"}, 30),
        ({"minPartitions": 5}, 30),
        ({"maxRowsPerTask": 4}, 30),
    ]:
        where = {} if "assign" in options else {"queue": "orders"}
        assert read(spark, queues, **where, **options).count() == expected, options


def test_a_queue_that_owns_few_positions_is_read_by_partition(spark: SparkSession, queues: Queues) -> None:
    for _ in range(3):
        queues.fill("small", partitions=2, per_partition=5)
        queues.fill("large", partitions=2, per_partition=500)
    assert numbers(read(spark, queues, queue="small")) == sorted(
        (p, n) for p in (0, 1) for n in range(5) for _ in range(3)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "nothing"}, "there is no queue 'nothing'"),
        ({"startingOffsets": "{"}, "option `startingOffsets` must be earliest, latest, group, a position, or JSON"),
        ({"startingOffsets": '{"orders": 7}'}, "option `startingOffsets` must be earliest, latest"),
        ({"startingOffsets": '{"pos": 999999}'}, "the database has only come to"),
        ({"assign": '{"orders": ["p9"]}'}, "queue 'orders' has no partition 'p9'"),
        ({"queuePattern": "("}, "option `queuePattern` must be a regular expression"),
        ({"maxOfsetsPerTrigger": "5"}, "did you mean `maxOffsetsPerTrigger`"),
        ({"columns": "prize"}, "there is no column 'prize'; allowed are queue, partition"),
        ({"url": "http://x"}, "the option `url` must start with postgresql://"),
        ({"failOnDataLoss": "maybe"}, "option `failOnDataLoss` must be true or false, not 'maybe'"),
        ({"startingOffsets": "group"}, "must be group only together with consumerGroup"),
        ({"startingOffsets": "1", "assign": '{"orders": ["p0"]}'}, "a position fits no seqs"),
        ({"startingOffsets": "1", "endingOffsets": '{"orders": {"p0": 5}}'}, "a position fits no seqs"),
        ({"kafka.bootstrap.servers": "h:9092"}, "no option `kafka.bootstrap.servers`, which is Kafka's: say by `url`"),
        ({"startingOffsetsByTimestamp": "{}"}, "which is Kafka's: use `startingTimestamp`"),
        ({"subscribe": "orders", "queue": "orders"}, "option `queue` must be given once"),
        ({"statementTimeout": "soon"}, "option `statementTimeout` must be a time like"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(
    spark: SparkSession, queues: Queues, options: dict[str, str], message: str
) -> None:
    queues.fill("orders", partitions=1, per_partition=1)
    where = {} if {"assign", "queuePattern"} & options.keys() else {"queue": "orders"}
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        read(spark, queues, **(where | options)).collect()
    assert 'File "' not in str(caught.value)
    assert "at org.apache" not in str(caught.value)


def test_an_unreachable_database_is_told_in_a_sentence(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SparkError, match="the database cannot be reached") as caught:
        Database("postgresql://queen@127.0.0.1:1/queen", patience=0.2).rows("queues")
    assert caught.value.code == "STORE_UNAVAILABLE"
    monkeypatch.delenv("QUEEN_DATABASE_URL", raising=False)
    with pytest.raises(Exception, match="no database: set the option `url`, or QUEEN_DATABASE_URL in the environment"):
        spark.read.format("queen").load().collect()


def test_the_address_stays_out_of_the_plan(spark: SparkSession, queues: Queues) -> None:
    queues.push("orders", "a", 1)
    frame = read(spark, queues, queue="orders")
    for text in (frame._jdf.queryExecution().toString(), frame._jdf.queryExecution().analyzed().toString()):
        assert queues.url not in text
