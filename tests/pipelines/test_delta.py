"""The lake as others see it: a Delta table, in a directory or in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from queen.spark.errors import SparkError
from queen.spark.lake import Lake
from queen.spark.lake.places import Place
from queen.spark.lake.querying import query
from queen.spark.lake.verify import verify
from tests.pipelines.support.buckets import ENVIRONMENT, bucket
from tests.pipelines.support.lakes import Pond
from tests.spark.support.queues import Queues


def test_the_lake_is_a_delta_table_by_queue_and_day_with_bounds(pond: Pond) -> None:
    pond.queues.fill("orders 1/2=%", partitions=2, per_partition=10)
    pond.queues.fill("other", partitions=1, per_partition=3)
    pond.run("archive", rows="7")
    log = DeltaTable(str(pond.path / "messages"))
    assert log.metadata().partition_columns == ["queue", "date"]
    (last,) = pond.queues.rows("select max(pos) + 1 from queen.messages")[0]
    assert log.transaction_version("queen.archive") == last
    day = datetime.now(UTC).date()
    outside = pl.scan_delta(str(pond.path / "messages"))
    found = outside.filter(pl.col("queue") == "orders 1/2=%", pl.col("date") == day).select("partition", "seq", "pos")
    stored = pond.queues.rows(
        """select p.name, m.seq, m.pos from queen.messages m join queen.partitions p on p.id = m.partition_id
            where p.name like 'p%%' and p.queue_id = 1 order by pos"""
    )
    assert sorted(found.collect().rows(), key=lambda row: row[2]) == stored
    for file in pond.lake.state().of("messages"):
        places = pq.read_table(pond.path / "messages" / file.path).column("pos").to_pylist()
        assert (min(places), max(places), len(places)) == (file.low, file.high, file.rows)


def test_one_commit_is_one_batch_and_time_travel_shows_it(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=10)
    pond.run("archive")
    version = pond.lake.state().versions["messages"]
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    place = str(pond.path / "messages")
    assert pond.lake.state().versions["messages"] == version + 1
    assert pl.scan_delta(place, version=version).collect().height == 10
    assert pl.scan_delta(place).collect().height == 15


@pytest.fixture
def far(spark: SparkSession, queues: Queues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pond]:
    """A lake in a bucket."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with bucket(tmp_path):
        yield Pond(spark, queues, tmp_path, f"s3a://lake/{tmp_path.name}")


def test_a_lake_in_a_bucket(far: Pond) -> None:
    far.queues.fill("orders", partitions=2, per_partition=10)
    far.run("archive", rows="7")
    far.queues.fill("orders", partitions=2, per_partition=200)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(far.run, "archive", rows="50") for _ in range(2)]
        assert sum(run.result(200).rows for run in runs) == 400, "two archives at once by mistake"
    expected = {f"p{p}": [*range(1, 211)] for p in range(2)}
    assert far.contents("orders") == expected
    outside = DeltaTable(far.lake.place.address + "/messages", storage_options=far.lake.place.storage)
    assert outside.to_pyarrow_table(columns=["seq"]).num_rows == 420
    assert query(far.lake, "select count(*), count(distinct id) from messages")[1] == [(420, 420)]
    assert verify(far.lake, far.queues.url).agrees
    assert far.run("reconcile").figures["differing"] == 0
    done = far.run("compact").figures
    assert int(str(done["files_after"])) < int(str(done["files_before"]))
    assert far.run("vacuum", hours="0").rows > 0
    assert far.contents("orders") == expected
    assert far.run("replay", queue="orders", to="again").rows == 420
    assert far.queues.value("select place from queen.archive_positions limit 1") == far.lake.place.address


def test_only_known_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("hdfs://host/x", "s3://", "gs:///"):
        with pytest.raises(
            SparkError, match="a lake must be a directory, s3://bucket/prefix, gs://bucket/prefix or abfss"
        ):
            Lake.open(wrong)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(SparkError, match="AZURE_STORAGE_ACCOUNT_NAME must be in the environment"):
        Place.of("abfs://container/lake")


@pytest.mark.parametrize(
    ("given", "address", "path", "kind"),
    [
        ("s3a://bucket/a/b/", "s3://bucket/a/b", "bucket/a/b/x", "s3"),
        ("gs://bucket/a", "gs://bucket/a", "bucket/a/x", "gcs"),
        ("abfs://box/a", "abfss://box/a", "box/a/x", "abfs"),
        ("abfss://box@mine.dfs.core.windows.net/a", "abfss://box@mine.dfs.core.windows.net/a", "box/a/x", "abfs"),
    ],
)
def test_buckets_of_all_kinds_go_the_same_way(
    monkeypatch: pytest.MonkeyPatch, given: str, address: str, path: str, kind: str
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    place = Place.of(given)
    assert (place.address, place.local, place.shown) == (address, False, address)
    assert place.path("x") == path
    assert place.filesystem.type_name == kind
    assert place.storage == ({"AWS_ALLOW_HTTP": "true"} if kind == "s3" else {})
