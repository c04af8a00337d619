"""The archive at full size: millions of messages in a thousand partitions, producers at work, killed again and again.

QUEEN_SCALE_MESSAGES and QUEEN_SCALE_KILLS make it smaller or larger.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import polars as pl
import psutil
import pytest
from pyspark.sql import SparkSession

from queen.spark.lake.files import File
from tests.pipelines.support.buckets import ENVIRONMENT, bucket
from tests.pipelines.support.lakes import Pond
from tests.pipelines.test_crash import Fire
from tests.spark.support.processes import Process
from tests.spark.support.queues import Queues
from tests.support.wait import wait_for

MESSAGES = int(os.environ.get("QUEEN_SCALE_MESSAGES", "5000000"))
KILLS = int(os.environ.get("QUEEN_SCALE_KILLS", "10"))
PARTITIONS = 1000
TARGET = max(MESSAGES // 1_250_000, 1)
"""Megabytes of a file."""
LIMIT = 3000


@dataclass(frozen=True)
class Size:
    """How much there is to archive, and how it is cut."""

    messages: int
    partitions: int
    kills: int
    batch: int
    archivers: int = 1


def command(pond: Pond, size: Size) -> list[str]:
    """An archive that goes on and on."""
    lake = pond.address or str(pond.path)
    options = [f"rows={size.batch}", f"file_megabytes={TARGET}"]
    words = [sys.executable, "-m", "queen", "pipeline", "run", "archive", "--master", "local[2]", "--every", "0"]
    return [*words, "--url", pond.queues.url, "--lake", lake, *(w for each in options for w in ("--option", each))]


def archived(pond: Pond) -> int:
    """Up to where the lake is complete."""
    reach = pond.lake.reach("messages") if "messages" in pond.place.names() else None
    return 0 if reach is None or reach.pos is None else reach.pos


def killed_again_and_again(pond: Pond, size: Size, folder: Path) -> list[float]:
    """Archives that are killed at random, the last one until everything is there; gives its memory over time."""
    rng = random.Random(11)
    memory: list[float] = []
    end = 0
    for kill in range(size.kills + 1):
        last = kill == size.kills
        end = pond.queues.value("select queen.advance_horizon()") if last else end
        before = archived(pond)
        with ExitStack() as stack:
            logs = [folder / f"log-{kill}-{number}" for number in range(size.archivers)]
            runs = [stack.enter_context(Process(command(pond, size), log)) for log in logs]

            def moved() -> bool:
                memory.extend(rss(runs[0]) if last else ())  # noqa: B023
                there = archived(pond)
                return there >= end if last else there > before  # noqa: B023

            wait_for(lambda: moved() or not any(run.running for run in runs), limit=LIMIT, pause=0.5)  # noqa: B023
            assert any(run.running for run in runs), logs[0].read_text()[-3000:]
            assert Event().wait(rng.uniform(0, 2)) is False
    return memory


def rss(run: Process) -> Iterator[float]:
    """What the Python of a driver holds, in megabytes."""
    try:
        yield psutil.Process(run.pid).memory_info().rss / 1e6
    except psutil.Error:
        return


def exactly_once(pond: Pond, expected: Counter[str]) -> None:
    """What a reader that is not ours finds."""
    log = pl.scan_delta(f"{pond.place.address}/messages", storage_options=pond.place.storage or None)
    found = (
        log.filter(pl.col("queue") == "orders")
        .group_by("partition")
        .agg(
            pl.len().alias("n"),
            pl.col("id").n_unique().alias("ids"),
            pl.col("seq").n_unique().alias("seqs"),
            pl.col("seq").min().alias("low"),
            pl.col("seq").max().alias("high"),
        )
        .collect()
    )
    rows = {row["partition"]: row for row in found.iter_rows(named=True)}
    assert {name: row["n"] for name, row in rows.items()} == dict(expected)
    assert all(row["n"] == row["ids"] == row["seqs"] == row["high"] and row["low"] == 1 for row in rows.values())


def within_twice(files: Sequence[File]) -> float:
    """The share of the bytes in files between half the size wanted and twice of it; none may be larger."""
    target = TARGET << 20
    assert max(file.bytes for file in files) <= 2 * target
    return sum(file.bytes for file in files if file.bytes >= target // 2) / sum(file.bytes for file in files)


def large(pond: Pond, size: Size, folder: Path) -> list[float]:
    each = size.messages // size.partitions
    pond.queues.fill("orders", partitions=size.partitions, per_partition=each)
    with Fire(pond.queues.url) as fire:
        memory = killed_again_and_again(pond, size, folder)
    pond.run("archive")
    pushed = Counter({f"p{number}": each for number in range(size.partitions)}) + sum(fire.pushed, Counter())
    exactly_once(pond, pushed)
    return memory


@pytest.fixture
def far(spark: SparkSession, queues: Queues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pond]:
    """A lake in a bucket."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with bucket(tmp_path):
        yield Pond(spark, queues, tmp_path, f"s3://lake/{tmp_path.name}")


@pytest.mark.chaos
@pytest.mark.scale
@pytest.mark.timeout(7200)
def test_millions_of_messages_are_archived_once_in_files_of_the_size_wanted(pond: Pond, tmp_path: Path) -> None:
    memory = large(pond, Size(MESSAGES, PARTITIONS, KILLS, max(MESSAGES // 8, 1000)), tmp_path)
    files = [file for file in pond.lake.state().of("messages") if file.group == "orders"]
    # The first batch goes by a guess of how large rows are; what producers push meanwhile is less than a file.
    assert within_twice(files) > 0.75
    tenth = memory[: len(memory) // 10] or memory
    assert max(memory) < 1.5 * max(tenth) + 50


@pytest.mark.chaos
@pytest.mark.scale
@pytest.mark.timeout(7200)
def test_two_archives_of_millions_of_messages_into_one_bucket(far: Pond, tmp_path: Path) -> None:
    large(far, Size(MESSAGES, PARTITIONS, KILLS, max(MESSAGES // 8, 1000), archivers=2), tmp_path)
