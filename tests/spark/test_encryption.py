from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from queen.engine.encryption import KeyRing
from queen.spark.errors import SparkError
from queen.spark.options import sink_options
from queen.spark.sink import BatchWriter
from tests.spark.conftest import KEY
from tests.spark.support.followers import ByHorizon
from tests.spark.support.queues import Queues


def seal_queue(queues: Queues, name: str) -> None:
    queues.push(name, "a", "made")
    queues.rows("select queen.clear_queue(%s)", name)
    queues.rows("update queen.queues set encryption_enabled = true where name = %s returning id", name)


def test_sealed_payloads_are_opened_with_the_key_of_the_reading_process(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal_queue(queues, "secret")
    queues.push("secret", "a", json.loads(KeyRing([KEY]).seal('{"n": 1}')))
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", KEY)
    with ByHorizon(queues, "secret", 10, columns="payload") as follower:
        payloads = follower.payloads()
    assert [json.loads(text) for text in payloads] == [{"n": 1}]
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", KEY[::-1])
    with (
        ByHorizon(queues, "secret", 10, columns="payload") as follower,
        pytest.raises(Exception, match="cannot be decrypted with the configured keys"),
    ):
        follower.payloads()


def test_a_sink_without_the_key_stores_nothing_in_an_encrypted_queue(queues: Queues) -> None:
    seal_queue(queues, "secret")
    writer = BatchWriter(sink_options({"url": queues.url, "queue": "secret"}))
    rows = pa.RecordBatch.from_pydict({"payload": ["{}"] * 3})
    with pytest.raises(SparkError, match="no encryption key is configured"):
        writer.write(iter([rows]))
    writer.abort([])
    assert queues.value("select count(*) from queen.messages") == 0


def test_a_key_in_the_environment_seals_and_opens(spark: SparkSession, queues: Queues) -> None:
    seal_queue(queues, "secret")
    frame = spark.range(5).selectExpr("to_json(named_struct('id', id)) as payload")
    frame.write.format("queen").mode("append").option("url", queues.url).option("queue", "secret").save()
    stored = queues.rows("select payload, is_encrypted from queen.messages")
    assert len(stored) == 5
    assert all(sealed and payload.keys() >= {"encrypted", "iv", "authTag"} for payload, sealed in stored)
    rows = spark.read.format("queen").option("url", queues.url).option("queue", "secret").load().collect()
    assert sorted(row["payload"] for row in rows) == [f'{{"id":{n}}}' for n in range(5)]
