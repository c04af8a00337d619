from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from queen.spark.columns import MESSAGES
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
    assert read(spark, queues).count() == 3
    assert read(spark, queues, queuePattern="nothing.*").count() == 0
