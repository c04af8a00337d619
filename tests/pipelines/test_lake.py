from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from queen.spark.errors import SparkError
from queen.spark.lake.compaction import compact
from queen.spark.lake.manifest import Commit, File, Manifest, Reach, State
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
    done = compact(pond.lake)
    assert (done.before, done.after) == (len(before.files), 1)
    assert done.before > 1
    assert pond.contents("orders") == contents
    assert pond.lake.read(pond.spark, "messages", before.of("messages")).count() == 60, "old files wait for readers"
    assert verify(pond.lake, pond.queues.url).agrees
    assert list(pond.lake.manifest.history()) == []
    pond.queues.fill("orders", partitions=2, per_partition=1)
    pond.run("archive")
    assert verify(pond.lake, pond.queues.url).agrees
    assert pond.lake.sweep(pond.lake.state(), older=-1) == done.before
    assert pond.contents("orders")["p1"] == [*range(1, 32)]


def test_what_no_commit_names_is_not_read_and_is_swept(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    file = pond.lake.state().of("messages")[0]
    stray = (pond.path / file.path).with_name("stray.parquet")
    stray.write_bytes((pond.path / file.path).read_bytes())
    (pond.path / "staging" / "dead").mkdir(parents=True)
    (pond.path / "staging" / "dead" / "half.parquet").write_bytes(b"PAR1half")
    assert pond.contents("orders") == {"p0": [1, 2, 3, 4, 5]}
    assert query(pond.lake, "select count(*) from messages")[1] == [(5,)]
    pond.run("archive")
    assert not (pond.path / "staging" / "dead").exists()
    assert pond.lake.sweep(pond.lake.state(), older=-1) == 1
    assert not stray.exists()


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
    queues.rows("update queen.messages set created_at = created_at - interval '1 hour' returning 1")
    retain = "select sum(queen.retain_partitions(array[id])) from queen.partitions"
    assert queues.value(retain) == 5

    def forget(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["lake", "forget", *arguments, "--url", queues.url])

    known = [json.loads(line) for line in forget().output.splitlines()]
    assert {(each["lake"], each["place"]) for each in known} == {(pond.lake.identity.id, pond.lake.place)}
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


def file(name: str) -> File:
    return File(path=name, table="messages", group="q", date="2026-01-01", rows=1, bytes=1, sha256="")


def test_a_manifest_is_what_its_commits_say(tmp_path: Path) -> None:
    manifest, state = Manifest(tmp_path), State()
    for number in range(1, 131):
        gone = [f"f{number - 1}"] if number % 10 == 0 else []
        commit = Commit(
            version=0,
            kind="append",
            table="messages",
            added=[file(f"f{number}")],
            removed=gone,
            reach=Reach(pos=number),
        )
        state = manifest.commit(state, commit)
    assert manifest.state() == state
    assert (len(state.files), state.reaches["messages"].pos, state.version) == (117, 130, 130)
    (tmp_path / "000000000005.json").unlink()
    assert manifest.state() == state, "a snapshot stands for it"
    (tmp_path / "000000000129.json").unlink()
    with pytest.raises(SparkError, match="is missing or not whole"):
        manifest.state()


def test_two_writers_cannot_both_commit(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    manifest.commit(State(), Commit(version=0, kind="append", table="messages", added=[file("mine")]))
    with pytest.raises(SparkError, match="another run has written commit 1"):
        manifest.commit(State(), Commit(version=0, kind="append", table="messages", added=[file("yours")]))
    assert list(manifest.state().files) == ["mine"]
