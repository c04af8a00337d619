from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from queen.engine.encryption import KeyRing
from tests.spark.support.followers import ByHorizon
from tests.spark.support.processes import Process, python
from tests.spark.support.queues import Queues

KEY = "0123456789abcdef" * 4


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


def test_a_sink_without_the_key_stores_nothing_in_an_encrypted_queue(spark: SparkSession, queues: Queues) -> None:
    seal_queue(queues, "secret")
    frame = spark.range(3).select(lit("{}").alias("payload"))
    with pytest.raises(Exception, match="no encryption key is configured"):
        frame.write.format("queen").mode("append").option("url", queues.url).option("queue", "secret").save()
    assert queues.value("select count(*) from queen.messages") == 0


SCRIPT = """
import sys
from queen.spark import session
url = sys.argv[1]
spark = session("local[1]", settings={"spark.driver.memory": "600m", "spark.ui.enabled": "false"})
spark.range(5).selectExpr("to_json(named_struct('id', id)) as payload").write.format("queen").mode("append").option(
    "queue", "secret").save()
rows = spark.read.format("queen").option("queue", "secret").load().collect()
assert sorted(row["payload"] for row in rows) == [f'{{"id":{n}}}' for n in range(5)], rows
"""


def test_a_key_in_the_environment_seals_and_opens(queues: Queues, tmp_path: Path) -> None:
    seal_queue(queues, "secret")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    given = {"QUEEN_ENCRYPTION_KEY": KEY, "QUEEN_DATABASE_URL": queues.url}
    with Process(python(script, queues.url), tmp_path / "log", given) as driver:
        assert driver.wait(200) == 0, (tmp_path / "log").read_text()[-3000:]
    stored = queues.rows("select payload, is_encrypted from queen.messages")
    assert len(stored) == 5
    assert all(sealed and payload.keys() >= {"encrypted", "iv", "authTag"} for payload, sealed in stored)
