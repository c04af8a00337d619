from __future__ import annotations

from deltalake import DeltaTable

from queen.spark.lake.compaction import compact
from tests.pipelines.support.lakes import Pond


def rows(pond: Pond) -> int:
    return len(DeltaTable(str(pond.path / "data" / "messages")).to_pyarrow_table())


def test_the_lake_is_a_delta_table_too(pond: Pond) -> None:
    pond.queues.fill("orders 1/2", partitions=2, per_partition=10)
    pond.run("archive", delta="true", rows="7")
    assert rows(pond) == 20
    pond.queues.fill("orders 1/2", partitions=2, per_partition=10)
    pond.run("archive")
    assert rows(pond) == 20, "nobody asked for it this time"
    pond.run("archive", delta="true")
    assert rows(pond) == 40
    compact(pond.lake)
    table = DeltaTable(str(pond.path / "data" / "messages"))
    assert (rows(pond), len(table.file_uris())) == (40, 1)
    assert table.transaction_version(pond.lake.identity.id) == pond.lake.state().version
    assert pond.lake.sweep(pond.lake.state(), older=-1) > 0
    assert rows(pond) == 40
