from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.support.queues import Queues


def table(spark: SparkSession, queues: Queues, name: str, **options: object) -> DataFrame:
    reader = spark.read.format("queen").option("url", queues.url).option("table", name)
    for key, value in options.items():
        reader = reader.option(key, str(value))
    return reader.load()


def test_deliveries_and_dead_letters_are_tables(spark: SparkSession, queues: Queues) -> None:
    queues.push("orders", "a", {"n": 1}, transaction_id="t-1")
    now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    queues.connection.execute(
        """insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count,
                                         failed, outcome, consumer_group)
           select p.queue_id, p.id, 1, 1, %(now)s::timestamptz - interval '3 s', %(now)s, 0, 1, 'failed', 'workers'
             from queen.partitions p where p.name = 'a'""",
        {"now": now},
    )
    queues.connection.execute(
        """insert into queen.dead_letter_queue (queue_id, partition_id, consumer_group, seq, message_id, transaction_id,
                                                payload, is_encrypted, created_at, error_message, failed_at)
           select p.queue_id, p.id, 'workers', m.seq, m.id, m.transaction_id, m.payload, false, m.created_at, 'broken',
                  %s
             from queen.messages m join queen.partitions p on p.id = m.partition_id""",
        [now],
    )
    (delivery,) = table(spark, queues, "deliveries", queue="orders").collect()
    assert (delivery["queue"], delivery["partition"], delivery["outcome"]) == ("orders", "a", "failed")
    assert (delivery["ended_at"] - delivery["leased_at"]).total_seconds() == 3
    assert delivery["ended_at"].timestamp() == now.timestamp()
    (letter,) = table(spark, queues, "dead_letters", startingTimestamp=now.isoformat(), minPartitions=3).collect()
    assert (letter["error_message"], letter["transaction_id"]) == ("broken", "t-1")
    assert json.loads(letter["payload"]) == {"n": 1}
    assert table(spark, queues, "dead_letters", endingTimestamp=now.isoformat()).count() == 0


def test_statistics_and_workflow_history_are_tables(spark: SparkSession, queues: Queues) -> None:
    queues.push("orders", "a", 1)
    queues.connection.execute(
        """insert into queen.stats (queue_id, bucket, pushed)
           select id, date_trunc('minute', clock_timestamp()) - interval '1 minute' * n, n
             from queen.queues, generate_series(0, 9) n where name = 'orders'"""
    )
    stats = table(spark, queues, "stats", queue="orders", minPartitions=4)
    assert sorted(row["pushed"] for row in stats.collect()) == list(range(10))
    queues.connection.execute(
        """with i as (
               insert into queen_durable.instances
                   (instance, name, version, current_execution_id, created_at, updated_at)
               values ('w-1', 'ship', '1.0', 1, 1000, 1000)),
           e as (insert into queen_durable.executions (instance, execution_id, started_at) values ('w-1', 1, 1000))
           insert into queen_durable.history (instance, execution_id, event_id, kind, data)
           values ('w-1', 1, 1, 'Started', '{}')"""
    )
    (event,) = table(spark, queues, "workflow_history").collect()
    assert (event["instance"], event["workflow"], event["event_id"], event["kind"]) == ("w-1", "ship", 1, "Started")
    assert event["started_at"].timestamp() == 1


def test_an_unknown_table_is_told_in_a_sentence(spark: SparkSession, queues: Queues) -> None:
    with pytest.raises(Exception, match="option `table` must be one of messages, deliveries, dead_letters"):
        table(spark, queues, "messagez")


def test_a_table_without_positions_is_no_stream(spark: SparkSession, queues: Queues) -> None:
    reader = spark.readStream.format("queen").option("url", queues.url).option("table", "deliveries")
    with pytest.raises(Exception, match="table 'deliveries' can be read in batch only"):
        reader.load().writeStream.format("noop").start().processAllAvailable()
