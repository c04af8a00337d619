"""Compaction, vacuum and verification as pipelines: on executors, beside an archive, and killed in the middle."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import polars as pl
import pytest

from queen.spark.database import Database
from queen.spark.lake import Lake
from queen.spark.lake.compaction import Exchange, compact, exchanged, rewritten
from queen.spark.lake.files import Reach
from tests.pipelines.support.facts import START, message_of, written
from tests.pipelines.support.lakes import Pond
from tests.spark.support.processes import Process
from tests.support.wait import wait_for

QUEUES, EACH, FILES = 6, 5, 2


@contextmanager
def archiving(pond: Pond) -> Iterator[None]:
    """Messages come and are archived all the while."""
    done = Event()

    def work() -> None:
        while not done.is_set():
            pond.queues.fill("orders", partitions=2, per_partition=5)
            pond.run("archive")

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(120)


def make_small_files(pond: Pond) -> None:
    """Many small files, as an archive leaves them that runs every few seconds."""
    pond.queues.fill("orders", partitions=2, per_partition=5)
    for number in range(QUEUES * FILES):
        pond.queues.fill(f"queue-{number % QUEUES}", partitions=1, per_partition=EACH)
        if number % QUEUES == QUEUES - 1:
            pond.run("archive")


def ids_outside(pond: Pond) -> list[str]:
    """The ids another reader of Delta finds."""
    return pl.scan_delta(str(pond.path / "messages")).select("id").collect()["id"].to_list()


def every_id_once(pond: Pond) -> None:
    stored = {row[0] for row in pond.queues.rows("select id::text from queen.messages")}
    found = ids_outside(pond)
    assert len(found) == len(set(found))
    assert set(found) == stored


def uncommitted(pond: Pond) -> set[Path]:
    named = {file.path for file in pond.lake.state().of("messages")}
    folder = pond.path / "messages"
    return {path for path in folder.glob("2*/*.parquet") if str(path.relative_to(folder)) not in named}


@pytest.mark.chaos
def test_compaction_beside_an_archive_and_killed_in_the_middle_keeps_every_id_once(pond: Pond, tmp_path: Path) -> None:
    make_small_files(pond)
    before = len(pond.lake.state().of("messages"))
    command = [sys.executable, "-m", "queen", "pipeline", "run", "compact", "--master", "local[1]"]
    command += ["--url", pond.queues.url, "--lake", str(pond.path)]
    with archiving(pond):
        with Process(command, tmp_path / "log") as driver:
            wait_for(lambda: uncommitted(pond) or not driver.running, limit=150, pause=0.005)
            driver.kill()
        found = ids_outside(pond)
        assert len(found) == len(set(found))
        done = pond.run("compact").figures
        assert int(str(done["files_after"])) < int(str(done["files_before"]))
    pond.run("archive")
    every_id_once(pond)
    assert len(pond.lake.state().of("messages")) < before
    assert pond.run("vacuum").rows == 0, "somebody may still be reading"
    assert pond.run("vacuum", hours="0").rows > 0
    assert uncommitted(pond) == set()
    every_id_once(pond)
    assert pond.run("verify").figures["agrees"] is True


def lake_of_small_files(pond: Pond) -> Lake:
    """Three queues with three files of one message each."""
    database = Database(pond.queues.url)
    try:
        lake = Lake.make(pond.path, database.row("identity")["database"])
    finally:
        database.close()
    chance = random.Random(1)
    reach: Reach | None = None
    for pos in range(9):
        message = {**message_of(chance, "orders/a", START), "queue": "abc"[pos % 3], "seq": pos, "pos": pos}
        lake.append("messages", written(lake, "messages", [message]), reach, Reach(pos=pos + 1))
        reach = Reach(pos=pos + 1)
    return lake


def test_what_others_compacted_meanwhile_is_left_out(pond: Pond) -> None:
    lake = lake_of_small_files(pond)
    files, ids = lake.state().of("messages"), sorted(ids_outside(pond))
    groups = [[file for file in files if file.group == name] for name in "ab"]
    mine = rewritten(pond.spark, lake, "messages", groups, 1 << 20)
    theirs: list[Exchange] = rewritten(pond.spark, lake, "messages", groups[:1], 1 << 20)
    assert len(exchanged(lake, "messages", theirs)) == 1
    assert [group[0].group for group, _ in exchanged(lake, "messages", mine)] == ["b"]
    assert sorted(ids_outside(pond)) == ids


def test_each_group_of_files_is_a_task(pond: Pond) -> None:
    lake = lake_of_small_files(pond)
    tracker = pond.spark.sparkContext.statusTracker()
    pond.spark.sparkContext.setJobGroup("compacting", "counted below")
    try:
        done = compact(pond.spark, lake)
    finally:
        pond.spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert (done.before, done.after, done.rows) == (9, 3, 9)
    (job,) = tracker.getJobIdsForGroup("compacting")
    told = tracker.getJobInfo(job)
    assert told is not None
    stages = [tracker.getStageInfo(stage) for stage in told.stageIds]
    assert [stage.numTasks for stage in stages if stage] == [3]
    assert sorted(file.group or "" for file in lake.state().of("messages")) == ["a", "b", "c"]
