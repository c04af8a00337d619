"""The database fails over: what read from it goes on with the server that took over, or is told what that one lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.spark.errors import SparkError
from queen.spark.lake.adoption import adopt
from tests.pipelines.support.lakes import Pond
from tests.spark.support.followers import ByHorizon
from tests.spark.support.queues import Queues
from tests.support.postgres import HASTY
from tests.support.standby import Standby


@pytest.fixture
def primary(scratch: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(scratch / "primary", settings=HASTY) as server:
        asyncio.run(apply(server.dsn()))
        yield server


async def apply(url: str) -> None:
    async with migrate.connect(url) as connection:
        await migrate.up(connection)


class Drill:
    """A lake and a stream of a primary with two standbys, one of which lost the last commits."""

    def __init__(self, spark: SparkSession, primary: EmbeddedServer, folder: Path, stack: ExitStack) -> None:
        self.queues = stack.enter_context(Queues(primary.dsn()))
        self.pond = Pond(spark, self.queues, folder / "lake")
        self.queues.fill("orders", partitions=3, per_partition=5)
        self.pond.run("archive")
        self.whole = stack.enter_context(Standby(primary, folder / "whole"))
        self.late = stack.enter_context(Standby(primary, folder / "late"))
        with ByHorizon(self.queues, "orders", 4) as self.follower:
            self.follower.poll()
        self.late.catch_up()
        self.late.stop()
        self.arrived = self.queues.value("select position from queen.horizon")
        self.queues.fill("orders", partitions=3, per_partition=2)
        with self.follower.on(self.queues) as follower:
            follower.poll()
        self.pond.run("archive", read_url=self.whole.url)
        self.whole.catch_up()
        self.reached = self.follower.offset["pos"]

    def following(self, queues: Queues, onFailover: str = "adopt") -> ByHorizon:  # noqa: N803
        """The stream with the checkpoint it has, on another server."""
        found = ByHorizon(queues, "orders", 4, onFailover=onFailover)
        found.offset, found.seen = self.follower.offset, list(self.follower.seen)
        return found


@pytest.fixture
def drill(spark: SparkSession, primary: EmbeddedServer, scratch: Path) -> Iterator[Drill]:
    with ExitStack() as stack:
        yield Drill(spark, primary, scratch, stack)


@pytest.mark.chaos
def test_a_failover_loses_nothing_and_repeats_nothing(drill: Drill, primary: EmbeddedServer) -> None:
    replica = drill.pond.spark.read.format("queen").option("url", primary.dsn()).option("readUrl", drill.whole.url)
    assert replica.option("queue", "orders").load().count() == 21
    assert replica.option("table", "stats").load().count() == 0
    primary.kill()
    drill.late.start()
    drill.late.promote()
    refused_by(drill)
    drill.late.stop()
    drill.whole.promote()
    goes_on_with(drill)


def refused_by(drill: Drill) -> None:
    """The server that lost commits is refused with what it lacks, and has changed nothing."""
    with Queues(drill.late.url) as queues:
        queues.fill("orders", partitions=3, per_partition=4)
        lost = {"from": drill.arrived, "to": drill.reached}
        with drill.following(queues) as stream, pytest.raises(SparkError, match="may be lost here") as caught:
            stream.poll()
        assert (caught.value.code, caught.value.figures) == ("COMMITS_LOST", lost)
        with pytest.raises(SparkError, match="the lake keeps 6 messages that are gone here: orders/p0 seq 6") as caught:
            adopt(drill.pond.lake, queues.url)
        assert (caught.value.code, caught.value.figures) == ("COMMITS_LOST", lost)
        assert "messages here have positions that the lake is past" in caught.value.message


def goes_on_with(drill: Drill) -> None:
    with Queues(drill.whole.url) as queues:
        queues.fill("orders", partitions=3, per_partition=3)
        pond = replace(drill.pond, queues=queues)
        with pytest.raises(SparkError, match="queen lake adopt"):
            pond.run("archive")
        with drill.following(queues, "fail") as stream, pytest.raises(SparkError, match="onFailover=adopt"):
            stream.poll()
        assert adopt(pond.lake, queues.url).pos == drill.reached
        assert adopt(pond.lake, queues.url).before == pond.lake.identity.database, "a second time is harmless"
        pond.run("archive")
        assert pond.contents("orders") == {f"p{p}": [*range(1, 11)] for p in range(3)}
        with drill.following(queues) as stream:
            stream.poll()
        assert stream.problems() == []
        assert len(stream.seen) == 30
        assert drill.pond.lake.identity.database == queues.value("select queen.database_identity()")


def test_a_database_that_did_not_take_over_is_refused(pond: Pond, queues: Queues) -> None:
    queues.fill("orders", partitions=1, per_partition=3)
    pond.run("archive")
    lake = pond.lake
    other = replace(lake.identity, database="1:1:1")
    moved = lake.adopt(other.database)
    with pytest.raises(SparkError, match="belongs to database 1:1:1") as caught:
        adopt(moved, queues.url)
    assert caught.value.code == "FOREIGN_LAKE"
    with pytest.raises(SparkError, match="belongs to database 1:1:1"):
        lake.append("messages", [], lake.reach("messages"), lake.reach("messages"))  # type: ignore[arg-type]
