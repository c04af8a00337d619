from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier, Thread

import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from queen.spark.database import Database
from queen.spark.pipelines.schedules import Schedules
from tests.pipelines.support.lakes import Pond
from tests.support.wait import wait_for

RUNS = "select pipeline, state, rows, master, lake from queen.pipeline_runs order by started_at"
DONE = "select 1 from queen.pipeline_runs where state = 'done'"
WORKERS = 4


def schedule(pond: Pond, *arguments: str) -> Result:
    place = ["--url", pond.queues.url, "--lake", str(pond.path)]
    return CliRunner().invoke(main, ["pipeline", "schedule", *arguments, *place])


def hourly(pond: Pond, *names: str) -> None:
    """Let pipelines run every hour, for the first time now."""
    for name in names:
        set_ = schedule(pond, name, "--every", "3600", "--master", "local[2]")
        assert set_.exit_code == 0, set_.output


@pytest.fixture
def schedules(pond: Pond) -> Iterator[Schedules]:
    with closing(Database(pond.queues.url)) as database:
        yield Schedules(database)


def test_a_schedule_is_set_listed_and_removed(pond: Pond, schedules: Schedules) -> None:
    assert schedule(pond, "archive", "--cron", "nonsense").exit_code == 2
    later = schedule(pond, "archive", "--cron", "0 0 1 1 *")
    assert (later.exit_code, "nextAt" in later.output) == (0, True)
    assert schedules.take() is None, "not due yet"
    hourly(pond, "archive")
    (listed,) = schedules.list()
    assert (listed.every, listed.due) == (3600, True)
    assert [schedule(pond, "archive", "--remove").exit_code for _ in range(2)] == [0, 1]
    assert schedules.list() == []


def test_what_is_due_is_run_once_and_what_fails_does_not_hold_it_up(pond: Pond, schedules: Schedules) -> None:
    pond.queues.fill("orders", partitions=2, per_partition=3)
    pond.run("archive")
    pond.queues.fill("orders", partitions=2, per_partition=2)
    hourly(pond, "replay", "archive")
    first, second = (schedule(pond, "--work", "--once") for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0), first.output
    assert "replay: say what to replay" in first.stderr
    assert second.output == ""
    here = ("local[2]", str(pond.path))
    assert sorted(pond.queues.rows(RUNS)) == [
        ("archive", "done", 4, *here), ("archive", "done", 6, *here), ("replay", "failed", 0, *here),
    ]  # fmt: skip
    assert pond.contents("orders") == {"p0": [1, 2, 3, 4, 5], "p1": [1, 2, 3, 4, 5]}
    assert [(each.due, each.last_at is None) for each in schedules.list()] == [(False, False)] * 2


def test_of_many_workers_one_takes_what_is_due(pond: Pond, schedules: Schedules) -> None:
    hourly(pond, "archive", "skew")
    together = Barrier(WORKERS)

    def work(_: int) -> list[str]:
        with closing(Database(pond.queues.url)) as database:
            mine = Schedules(database)
            together.wait(30)
            return [taken.pipeline for taken in iter(mine.take, None)]

    with ThreadPoolExecutor(WORKERS) as pool:
        taken = [name for names in pool.map(work, range(WORKERS)) for name in names]
    assert sorted(taken) == ["archive", "skew"]
    assert schedules.take() is None


def test_a_worker_that_has_run_something_still_heeds_a_signal(pond: Pond) -> None:
    hourly(pond, "archive")

    def stop() -> None:
        with pond.queues.connect(autocommit=True) as connection:
            wait_for(lambda: connection.execute(DONE).fetchone(), 60)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stopper = Thread(target=stop)
    stopper.start()
    try:
        ended = schedule(pond, "--work")
    finally:
        stopper.join(70)
        signal.signal(signal.SIGTERM, before)
    assert ended.exit_code == 0, ended.output
