"""The archive under fire: producers push, retention removes, and the pipeline is killed again and again."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Self

import polars as pl
import psycopg
import pytest

from queen.spark.lake.verify import verify
from tests.pipelines.support.lakes import Pond
from tests.spark.support.processes import Process
from tests.spark.support.queues import push
from tests.support.wait import wait_for

PARTITIONS = 8
RETAIN = "select sum(queen.retain_partitions(array[id])) from queen.partitions"


class Fire:
    """Producers and retention, each on a connection of its own, until put out."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pushed: list[Counter[str]] = []
        self.removed = 0
        self._out = Event()
        self._threads = [Thread(target=self._push, args=[number]) for number in range(2)]
        self._threads.append(Thread(target=self._retain))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._out.set()
        for thread in self._threads:
            thread.join(30)

    def _push(self, producer: int) -> None:
        mine: Counter[str] = Counter()
        self.pushed.append(mine)
        with psycopg.connect(self.url, autocommit=True) as connection:
            number = 0
            while not self._out.wait(0.01):
                partition = f"p{number % PARTITIONS}"
                with connection.transaction(force_rollback=number % 11 == 10):
                    push(connection, "orders", partition, {"producer": producer, "n": number})
                mine[partition] += number % 11 != 10
                number += 1

    def _retain(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            while not self._out.wait(0.2):
                row = connection.execute(RETAIN).fetchone()
                self.removed += int(row[0] or 0) if row else 0


def under_fire(pond: Pond, tmp_path: Path, kills: int) -> None:
    options = {"retention_enabled": True, "retention_seconds": 5, "archive": True}
    pond.queues.rows("select from queen.configure('orders', %s)", json.dumps(options))
    command = [sys.executable, "-m", "queen", "pipeline", "run", "archive", "--master", "local[1]", "--every", "0"]
    command += ["--url", pond.queues.url, "--lake", str(pond.path), "--option", "rows=300"]
    rng = random.Random(7)
    with Fire(pond.queues.url) as fire:
        for kill in range(kills):
            with Process(command, tmp_path / f"log-{kill}") as archive:
                before = commits(pond.path)
                wait_for(lambda: commits(pond.path) > before + 2 or not archive.running, limit=100)  # noqa: B023
                assert archive.running, (tmp_path / f"log-{kill}").read_text()[-3000:]
                assert Event().wait(rng.uniform(0, 1)) is False
                archive.kill()
        wait_for(lambda: fire.removed > 0, limit=60)
    pond.run("archive")
    agreed(pond, sum(fire.pushed, Counter()))


def commits(path: Path) -> int:
    return len(list((path / "messages" / "_delta_log").glob("*.json"))) if path.exists() else 0


def agreed(pond: Pond, pushed: Counter[str]) -> None:
    """Every message that was pushed is in the lake once, and the database keeps only what is in the lake too."""
    contents = pond.contents("orders")
    assert contents == {partition: [*range(1, count + 1)] for partition, count in pushed.items()}
    verdict = verify(pond.lake, pond.queues.url)
    assert verdict.agrees, verdict
    outside = pl.scan_delta(str(pond.path / "messages")).select("partition", "seq").collect()
    assert sorted(outside.rows()) == sorted((name, seq) for name, seqs in contents.items() for seq in seqs)
    assert {lane.partition: (lane.lake, lane.twice, lane.missing) for lane in verdict.lanes} == {
        partition: (count, 0, 0) for partition, count in pushed.items()
    }
    states = Counter(row[0] for row in pond.queues.rows("select state from queen.pipeline_runs"))
    assert states["done"] > 0


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_lake_and_database_hold_every_message_once_whatever_is_killed(pond: Pond, tmp_path: Path) -> None:
    under_fire(pond, tmp_path, kills=2)


@pytest.mark.chaos
@pytest.mark.scale
@pytest.mark.timeout(1200)
def test_ten_kills(pond: Pond, tmp_path: Path) -> None:
    under_fire(pond, tmp_path, kills=10)
