from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from queen.spark.errors import SparkError
from queen.spark.lake.compaction import compact, merge, vacuum
from queen.spark.lake.files import Reach, listed
from queen.spark.lake.querying import query
from queen.spark.lake.verify import verify
from tests.pipelines.support.lakes import Pond


def test_verify_agrees_partition_by_partition(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=3, per_partition=20)
    pond.queues.push("orders", "p0", {"text": "ä\n\"'", "n": 1.50}, transaction_id="t-1")
    pond.run("archive", rows="25")
    pond.queues.fill("orders", partitions=1, per_partition=3)
    verdict = verify(pond.lake, pond.queues.url)
    assert verdict.agrees
    assert [(lane.partition, lane.lake, lane.database, lane.twice, lane.missing) for lane in verdict.lanes] == [
        ("p0", 21, 21, 0, 0), ("p1", 20, 20, 0, 0), ("p2", 20, 20, 0, 0),
    ]  # fmt: skip


def test_verify_finds_what_differs(pond: Pond) -> None:
    queues = pond.queues
    queues.fill("orders", partitions=4, per_partition=5)
    pond.run("archive")
    queues.rows("update queen.messages set payload = '7' where partition_id = 2 and seq = 3 returning 1")
    queues.rows("delete from queen.messages where partition_id = 3 and seq = 4 returning 1")
    queues.rows("update queen.messages set pos = 0, seq = 0 where partition_id = 4 and seq = 1 returning 1")
    lanes = {lane.partition_id: lane for lane in verify(pond.lake, queues.url).lanes}
    assert [number for number, lane in sorted(lanes.items()) if not lane.agrees] == [2, 3, 4]
    assert [text.partition(":")[0] for text in lanes[2].different] == ["3"]
    assert [text.partition(":")[0] for text in lanes[3].only_in_lake] == ["4"]
    assert [text.partition(":")[0] for text in lanes[4].only_in_lake] == ["1"]


def test_what_was_deleted_by_hand_or_by_retention_is_no_difference(pond: Pond) -> None:
    queues = pond.queues
    queues.fill("orders", partitions=1, per_partition=6)
    queues.push("orders", "p0", "wrong", transaction_id="t-7")
    queues.fill("orders", partitions=1, per_partition=3)
    pond.run("archive")
    assert queues.value("select queen.delete_message(partition_id, 't-7') from queen.messages where seq = 7") is True
    queues.rows(
        "select queen.remove_ranges(array[id], array[3], array[3], now()) from queen.partitions where name = 'p0'"
    )
    (lane,) = verify(pond.lake, queues.url).lanes
    assert (lane.agrees, lane.lake, lane.database) == (True, 10, 6)


def test_compacting_keeps_every_row_and_readers_of_before(pond: Pond) -> None:
    for _ in range(3):
        pond.queues.fill("orders", partitions=2, per_partition=10)
        pond.run("archive")
    before = pond.lake.state()
    contents = pond.contents("orders")
    done = compact(pond.spark, pond.lake)
    assert (done.before, done.after, done.rows) == (3, 1, 60)
    assert vacuum(pond.spark, pond.lake) == 0, "a reader may still be at it"
    assert pond.contents("orders") == contents
    assert pond.lake.read(pond.spark, "messages", before.of("messages")).count() == 60, "old files wait for readers"
    assert verify(pond.lake, pond.queues.url).agrees
    pond.queues.fill("orders", partitions=2, per_partition=1)
    pond.run("archive")
    assert verify(pond.lake, pond.queues.url).agrees
    assert vacuum(pond.spark, pond.lake, hours=0) == 3
    assert pond.contents("orders")["p1"] == [*range(1, 32)]


def test_of_two_compactions_at_once_one_is_refused(pond: Pond) -> None:
    for _ in range(3):
        pond.queues.fill("orders", partitions=2, per_partition=10)
        pond.run("archive")
    lake = pond.lake
    log = lake.log("messages")
    assert log is not None
    files = list(listed("messages", log))
    merged = list(merge(lake.place.below("messages"), "messages", 1 << 20, files))
    compact(pond.spark, pond.lake)
    with pytest.raises(SparkError, match="another run is writing"):
        lake.exchange("messages", log, files, merged)
    assert verify(pond.lake, pond.queues.url).agrees


def test_of_two_archives_at_once_each_batch_is_taken_once(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=2, per_partition=10)
    pond.run("archive")
    lake, files = pond.lake, pond.lake.state().of("messages")
    with pytest.raises(SparkError, match="another run is writing"):
        lake.append("messages", files, None, Reach(pos=files[0].high + 1))
    pond.queues.fill("orders", partitions=2, per_partition=200)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(pond.run, "archive", rows="50") for _ in range(2)]
        assert sum(run.result(200).rows for run in runs) == 400
    assert pond.contents("orders") == {f"p{p}": [*range(1, 211)] for p in range(2)}


def test_what_no_commit_names_is_not_read_and_is_removed(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    file = pond.lake.state().of("messages")[0]
    path = pond.path / "messages" / file.path
    stray = path.with_name("stray.parquet")
    stray.write_bytes(path.read_bytes())
    assert pond.contents("orders") == {"p0": [1, 2, 3, 4, 5]}
    assert query(pond.lake, "select count(*) from messages")[1] == [(5,)]
    assert vacuum(pond.spark, pond.lake) == 0, "somebody may still be writing it"
    assert vacuum(pond.spark, pond.lake, hours=0) == 1
    assert not stray.exists()
    assert verify(pond.lake, pond.queues.url).agrees


def test_sql_over_the_lake_from_the_terminal(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=2, per_partition=4)
    pond.run("archive")
    asked = ["lake", "query", "--lake", str(pond.path)]
    statement = "select partition, max((payload ->> 'n')::int) as n from messages group by 1 order by 1"
    shown = CliRunner().invoke(main, [*asked, statement])
    assert [json.loads(line) for line in shown.output.splitlines()] == [
        {"partition": "p0", "n": 3},
        {"partition": "p1", "n": 3},
    ]
    listed = json.loads(CliRunner().invoke(main, ["lake", "ls", "--lake", str(pond.path)]).output)
    assert (listed["table"], listed["name"], listed["rows"]) == ("messages", "orders", 8)
    refused = CliRunner().invoke(main, [*asked, "select nonsense from messages"])
    assert (refused.exit_code, "nonsense" in refused.output) == (2, True)
    verified = CliRunner().invoke(main, ["lake", "verify", "--lake", str(pond.path), "--url", pond.queues.url])
    assert (verified.exit_code, "8 rows in" in verified.output) == (0, True)


def test_a_lake_that_is_gone_is_forgotten(pond: Pond) -> None:
    queues = pond.queues
    options = {"retention_enabled": True, "retention_seconds": 1, "archive": True}
    queues.rows("select from queen.configure('orders', %s)", json.dumps(options))
    queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    queues.fill("orders", partitions=1, per_partition=5)
    queues.age()
    retain = "select sum(queen.retain_partitions(array[id])) from queen.partitions"
    assert queues.value(retain) == 5

    def forget(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["lake", "forget", *arguments, "--url", queues.url])

    known = [json.loads(line) for line in forget().output.splitlines()]
    assert {(each["lake"], each["place"]) for each in known} == {(pond.lake.identity.id, pond.lake.place.shown)}
    assert {each["source"]: each["pos"] for each in known}["messages"] == pond.lake.state().reaches["messages"].pos
    unknown = forget("11111111-1111-1111-1111-111111111111")
    assert (unknown.exit_code, "knows no lake" in unknown.output) == (1, True)
    refused = forget("nonsense")
    assert (refused.exit_code, "not a valid UUID" in refused.output) == (2, True)
    assert queues.value(retain) == 0, "it still waits"
    assert forget(pond.lake.identity.id).exit_code == 0
    assert "no lake holds retention back" in forget("-o", "table").output
    assert queues.value(retain) == 0, "with no lake at all nothing is removed"
    second = Pond(pond.spark, queues, pond.path.with_name("second"))
    second.run("archive")
    assert queues.value(retain) == 5
    assert second.contents("orders") == {"p0": [*range(6, 11)]}
