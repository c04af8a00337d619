"""The live queue and the lake as one table, while an archive and retention move messages from one to the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import psycopg
import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.spark.errors import SparkError
from queen.spark.lake import joined
from queen.spark.lake.joined import all_messages
from queen.spark.lake.querying import ask, query
from tests.pipelines.support.lakes import Pond
from tests.spark.support.queues import push

PARTITIONS = 4
COUNTS = """select partition, count(*), count(distinct id), count(distinct seq), min(seq), max(seq)
              from all_messages where queue = 'orders' group by partition"""
RETAIN = "select sum(queen.retain_partitions(array[id])) from queen.partitions"


def problems(rows: Sequence[tuple[object, ...]]) -> list[str]:
    """What is twice or missing among the counts of each partition."""
    return [str(row) for row in rows if not row[1] == row[2] == row[3] == row[5] or row[4] != 1]


@contextmanager
def moving(pond: Pond) -> Iterator[list[int]]:
    """Messages are pushed, archived and removed all the time; gives how many were pushed, removed and archived."""
    options = {"retention_enabled": True, "retention_seconds": 1, "archive": True}
    pond.queues.rows("select from queen.configure('orders', %s)", json.dumps(options))
    pond.queues.fill("orders", partitions=PARTITIONS, per_partition=5)
    pond.run("archive")
    stop, counts = Event(), [0, 0, 0]

    def produce() -> None:
        with psycopg.connect(pond.queues.url, autocommit=True) as connection:
            while not stop.wait(0.005):
                push(connection, "orders", f"p{counts[0] % PARTITIONS}", {"n": counts[0]})
                counts[0] += 1
                if counts[0] % 10 == 0:
                    row = connection.execute(RETAIN).fetchone()
                    counts[1] += int(row[0] or 0) if row else 0

    def archive() -> None:
        while not stop.is_set():
            counts[2] += pond.run("archive", rows="100").rows

    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(produce), pool.submit(archive)]
        try:
            yield counts
        finally:
            stop.set()
        for work in works:
            work.result(100)


def count_again_and_again(pond: Pond, times: int) -> None:
    with moving(pond) as counts:
        seen, done = 0, 0
        # Until it has been done so often, and messages have gone all the way meanwhile.
        while done < times or min(counts) == 0:
            before = counts[0]
            _, rows = query(pond.lake, COUNTS, pond.queues.url)
            assert problems(rows) == []
            total = sum(int(row[1]) for row in rows) - PARTITIONS * 5
            assert max(before, seen) <= total
            seen, done = total, done + 1
        with all_messages(pond.spark, pond.lake, pond.queues.url) as frame:
            assert problems(pond.spark.sql(COUNTS).collect()) == []
            assert frame.where("queue = 'orders'").count() == frame.select("id").distinct().count() >= seen


def test_a_reader_sees_every_message_once_while_they_move(pond: Pond) -> None:
    count_again_and_again(pond, times=12)


@pytest.mark.scale
@pytest.mark.timeout(1800)
def test_a_reader_sees_every_message_once_two_hundred_times(pond: Pond) -> None:
    count_again_and_again(pond, times=200)


@pytest.mark.parametrize("step", [1, -1])
def test_a_cut_off_by_one_is_noticed(pond: Pond, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    pond.queues.fill("orders", partitions=PARTITIONS, per_partition=5)
    pond.run("archive")
    pond.queues.fill("orders", partitions=PARTITIONS, per_partition=5)
    assert problems(query(pond.lake, COUNTS, pond.queues.url)[1]) == []
    right = joined.boundary
    monkeypatch.setattr(joined, "boundary", lambda log: right(log) + step)
    assert len(problems(query(pond.lake, COUNTS, pond.queues.url)[1])) == 1


def test_messages_that_went_to_the_lake_between_the_two_choices(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive and retention run after the version of the lake was chosen, and before the moment of the database."""
    options = {"retention_enabled": True, "retention_seconds": 1, "archive": True}
    pond.queues.rows("select from queen.configure('orders', %s)", json.dumps(options))
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    pond.queues.fill("orders", partitions=1, per_partition=5)
    right, chosen = joined.boundary, list[int]()

    def boundary(log: object) -> int:
        chosen.append(right(log))  # type: ignore[arg-type]
        if len(chosen) == 1:
            pond.run("archive")
            pond.queues.age()
            assert pond.queues.value(RETAIN) == 10
        return chosen[-1]

    monkeypatch.setattr(joined, "boundary", boundary)
    assert query(pond.lake, "select count(*), count(distinct id) from all_messages", pond.queues.url)[1] == [(10, 10)]
    assert chosen[0] < chosen[-1]


def test_live_and_archived_together(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=3)
    pond.run("archive")
    pond.queues.fill("orders", partitions=1, per_partition=2)
    pond.queues.fill("other", partitions=1, per_partition=1)
    statement = "select queue, count(*) as n, max(date) = max(created_at)::date as day from {} group by 1 order by 1"
    tables = {name: ask(pond.lake, statement.format(name), pond.queues.url) for name in ("messages", "live_messages")}
    assert tables["messages"].to_pylist() == [{"queue": "orders", "n": 3, "day": True}]
    assert [row["n"] for row in tables["live_messages"].to_pylist()] == [2, 1]
    command = ["lake", "query", "select count(*) as n from all_messages", "--lake", str(pond.path)]
    shown = CliRunner().invoke(main, [*command, "--url", pond.queues.url, "-o", "json"])
    assert (shown.exit_code, json.loads(shown.output)) == (0, {"n": 6})
    with pytest.raises(SparkError, match="need the address of the database"):
        query(pond.lake, "select 1 from ALL_MESSAGES")
