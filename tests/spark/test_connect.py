from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.drivers import connect
from tests.spark.support.processes import Process, python
from tests.spark.support.queues import Queues
from tests.spark.support.sums import sums


@pytest.mark.timeout(400)
def test_a_thin_client_reads_and_writes_queues(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    queues.fill("in", partitions=3, per_partition=10)
    with Process(python(Path(connect.__file__), queues.url, tmp_path), tmp_path / "log") as client:
        assert client.wait(300) == 0, (tmp_path / "log").read_text()[-4000:]
    assert queues.contents("batch-out") == queues.contents("stream-out") == queues.contents("in")
    assert json.loads((tmp_path / "sums.json").read_text()) == sums(spark, queues.url, "in")
