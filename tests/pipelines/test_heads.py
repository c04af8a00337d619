"""Commits to the log of a lake: as cheap with many files as with few, and as others read them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from queen.spark.errors import SparkError
from queen.spark.lake import Lake, heads
from queen.spark.lake.files import File, Reach
from queen.spark.lake.heads import Heads
from queen.spark.lake.lake import Moved
from queen.spark.lake.places import Place
from queen.spark.lake.tables import delta_schema


def made_up(number: int, count: int = 1) -> list[File]:
    """Files that a log may name; nobody reads them."""
    bounds = {"pos": number}
    stats = json.dumps({"numRecords": 10, "minValues": bounds, "maxValues": bounds, "nullCount": {"pos": 0}})
    return [
        File(
            path=f"2026-01-31/{number}-{place}.parquet", table="messages", group=None if place else "orders",
            date="2026-01-31", rows=10, bytes=1000, low=number, high=number, stats=stats,
        )
        for place in range(count)
    ]  # fmt: skip


def filled(path: Path, commits: int, count: int = 1) -> Lake:
    lake = Lake.make(path, "1:1:1", 7)
    for number in range(commits):
        lake.append("messages", made_up(number, count), Reach(pos=number) if number else None, Reach(pos=number + 1))
    return lake


def test_a_commit_is_what_others_expect(tmp_path: Path) -> None:
    rows = delta_schema("messages").empty_table()
    lake = filled(tmp_path / "lake", 2)
    log = DeltaTable(str(tmp_path / "lake" / "messages"))
    assert log.version() == 2
    assert log.transaction_version("queen.archive") == 2
    found = lake.state().of("messages")
    assert sorted((file.path, file.group, file.date, file.rows, file.bytes, file.low) for file in found) == [
        (f"2026-01-31/{number}-0.parquet", "orders", "2026-01-31", 10, 1000, number) for number in range(2)
    ]
    assert log.history()[0]["operationMetrics"]["numOutputRows"] in ("10", 10)
    assert pl.scan_delta(str(tmp_path / "lake" / "messages")).collect_schema().names() == rows.column_names


def test_the_head_is_read_from_a_checkpoint_and_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "EVERY", 1_000_000)
    lake = filled(tmp_path / "lake", 3)
    place = lake.place.below("messages")
    before = Heads().of(place)
    heads.checkpoint(place)
    for old in Path(place.path("_delta_log")).glob("*[0-2].json"):
        old.unlink()
    lake.append("messages", made_up(3), Reach(pos=3), Reach(pos=4))
    head = Heads().of(place)
    assert before is not None
    assert head is not None
    assert (head.version, head.transactions, head.plain) == (4, {"queen.archive": 4}, True)
    assert (head.id, head.configuration) == (before.id, before.configuration)
    assert Lake.open(tmp_path / "lake").identity == lake.identity


def test_a_log_with_a_gap_is_damaged(tmp_path: Path) -> None:
    """Going on before the gap would archive again what is behind it."""
    lake = filled(tmp_path / "lake", 4)
    Path(lake.place.below("messages").path(heads.commit_name(2))).unlink()
    with pytest.raises(SparkError) as caught:
        Lake.open(tmp_path / "lake")
    assert caught.value.code == "LAKE_DAMAGED"


def test_of_two_who_commit_the_same_one_is_refused_and_others_are_not_in_the_way(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake", 1)
    barrier = Barrier(4)

    def commit(number: int) -> bool:
        mine = Lake.open(tmp_path / "lake")
        barrier.wait(20)
        try:
            mine.append("messages", made_up(number), Reach(pos=1), Reach(pos=2))
        except Moved:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(commit, range(10, 14))) == [False, False, False, True]
    assert len(lake.state().of("messages")) == 2
    stale = Lake.open(tmp_path / "lake")
    assert stale.reach("messages") == Reach(pos=2)
    log = DeltaTable(str(tmp_path / "lake" / "messages"))
    log.create_write_transaction(
        [file.added(new=True) for file in made_up(20)], "append", log.schema(), ["queue", "date"],
        commit_properties=CommitProperties(app_transactions=[Transaction("somebody else", 1)]),
    )  # fmt: skip
    stale.append("messages", made_up(21), Reach(pos=2), Reach(pos=3))
    assert {file.low for file in lake.state().of("messages")} >= {20, 21}
    late = Lake.open(tmp_path / "lake")
    late.reach("messages")
    lake.adopt("1:2:1")
    with pytest.raises(SparkError, match="belongs to database 1:2:1"):
        late.append("messages", made_up(22), Reach(pos=3), Reach(pos=4))


def test_a_commit_reads_and_writes_as_much_with_many_files_as_with_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told by what is read of the log; delta-rs, which would read all of it, is taken away."""
    few, many = filled(tmp_path / "few", 3, 1), filled(tmp_path / "many", 3, 3000)
    right, sizes = heads.commit_of, list[int]()

    def commit_of(place: Place, version: int) -> object:
        found = Path(place.path(heads.commit_name(version)))
        sizes.append(found.stat().st_size if found.exists() else 0)
        return right(place, version)

    monkeypatch.setattr(heads, "commit_of", commit_of)
    monkeypatch.setattr(heads, "DeltaTable", None)
    monkeypatch.setattr("queen.spark.lake.lake.DeltaTable", None)
    for lake in (few, many):
        sizes.clear()
        for number in (3, 4):
            lake.append("messages", made_up(number), Reach(pos=number), Reach(pos=number + 1))
        assert sum(sizes) == 0, "it remembers its own commits, and looks whether there are others"
