from __future__ import annotations

import asyncio

import pytest
from pyspark.sql import DataFrame, SparkSession

from queen.demo.history import make_history
from queen.demo.shop import STAGES
from queen.demo.storing import store
from queen.engine import Engine
from queen.spark.errors import SparkError
from queen.spark.pipelines.definition import Period
from queen.spark.pipelines.journeys import handled, journeys
from queen.spark.pipelines.rollups import events, filled, in_buckets, seconds, summary
from tests.pipelines.support.frames import START, Tables, at, rows
from tests.pipelines.support.lakes import Pond


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> Tables:
    """Two lanes: one with a batch, a failure and a dead letter; one that nobody ever reads."""
    tables = Tables(spark)
    for seq, moment in enumerate((10, 20, 90, 100), 1):
        tables.message("a/p", seq, moment, {"n": seq})
    tables.message("b/p", 1, 30)
    tables.deliver("a/p", "g", (1, 2), 30, 40)
    tables.deliver("a/p", "g", (3, 4), 120, 125, "failed", failed=1)
    tables.deliver("a/p", "g", (4, 4), 130, 150, "failed", failed=1, retry_count=3)
    tables.bury("a/p", "g", 4, 150, "gone")
    return tables


def complete(tables: Tables) -> DataFrame:
    found = journeys(tables.messages, tables.deliveries, tables.letters).cache()
    return filled(found, in_buckets(events(found, tables.deliveries), "minute"))


@pytest.fixture(scope="module")
def buckets(shop: Tables) -> DataFrame:
    """The rollups of the shop, worked out once."""
    return complete(shop).cache()


def test_batches_come_down_to_messages(shop: Tables) -> None:
    found = {row["seq"]: row for row in rows(handled(shop.deliveries, shop.letters))}
    assert [(seq, row["attempts"], row["dead"]) for seq, row in sorted(found.items())] == [
        (1, 1, False), (2, 1, False), (3, 1, False), (4, 2, True),
    ]  # fmt: skip
    times = {seq: (row["first_leased_at"].timestamp(), row["finished_at"].timestamp()) for seq, row in found.items()}
    expected = {1: (30, 40), 2: (30, 40), 3: (120, 125), 4: (120, 150)}
    assert times == {seq: (at(lease).timestamp(), at(end).timestamp()) for seq, (lease, end) in expected.items()}


@pytest.mark.parametrize("outcome", ["failed", "expired", "released", "retried"])
def test_what_was_not_finished_is_not_finished(spark: SparkSession, outcome: str) -> None:
    tables = Tables(spark)
    tables.deliver("a/p", "g", (1, 3), 1, 2, outcome)
    assert {row["seq"]: row["finished_at"] for row in rows(handled(tables.deliveries, tables.letters))} == {
        1: None, 2: None, 3: None,
    }  # fmt: skip


def test_a_seek_back_does_not_finish_twice(spark: SparkSession) -> None:
    tables = Tables(spark)
    tables.deliver("a/p", "g", (1, 2), 1, 2)
    tables.deliver("a/p", "g", (1, 2), 11, 12)
    found = rows(handled(tables.deliveries, tables.letters))
    assert {row["finished_at"].timestamp() for row in found} == {at(2).timestamp()}
    assert {row["attempts"] for row in found} == {2}


def test_every_bucket_has_its_figures(buckets: DataFrame) -> None:
    every = rows(buckets)
    mine = {
        (row["bucket"].timestamp() - START.timestamp(), row["partition"]): row
        for row in every
        if row["queue"] == "a" and row["grain"] == "minute"
    }
    assert sorted(mine) == [(0, ""), (0, "p"), (60, ""), (60, "p"), (120, ""), (120, "p")]
    names = ("messages_in", "messages_out", "messages_failed", "wait_p50_ms", "work_p50_ms", "lag", "backlog_age_ms")
    for partition in ("", "p"):
        figures = [tuple(mine[minute, partition][name] for name in names) for minute in (0, 60, 120)]
        assert figures == [
            (2, 2, 0, 15_000, 10_000, 0, 0),
            (2, 0, 0, None, None, 2, 30_000),
            (0, 1, 2, 25_000, 12_500, 0, 0),
        ]
    assert mine[0, "p"]["bytes_in"] == 2 * len('{"n": 1}')
    assert mine[0, "p"]["wait_p95_ms"] == pytest.approx(19_500)
    assert mine[0, "p"]["wait_p99_ms"] == pytest.approx(19_900)
    hours = [row for row in every if row["queue"] == "a" and row["grain"] == "hour" and row["partition"] == "p"]
    assert [(row["messages_in"], row["messages_out"], row["lag"]) for row in hours] == [(4, 3, 0)]


def test_a_queue_without_a_group_has_rows_of_its_own(buckets: DataFrame) -> None:
    mine = [row for row in rows(buckets) if row["queue"] == "b"]
    assert {row["consumer_group"] for row in mine} == {""}
    assert {(row["messages_in"], row["messages_out"], row["lag"]) for row in mine} == {(1, 0, None)}


@pytest.mark.parametrize(("finest", "grains"), [("hour", {"hour", "day"}), ("day", {"day"}), ("none", set())])
def test_single_partitions_may_be_kept_coarser(shop: Tables, finest: str, grains: set[str]) -> None:
    found = journeys(shop.messages, shop.deliveries, shop.letters)
    places = rows(in_buckets(events(found, shop.deliveries), finest).select("partition", "grain"))
    assert {row["grain"] for row in places if row["partition"]} == grains
    assert {row["grain"] for row in places if not row["partition"]} == {"minute", "hour", "day"}


def test_an_open_backlog_grows_older(spark: SparkSession) -> None:
    tables = Tables(spark)
    tables.message("a/p", 1, 5)
    tables.message("a/q", 1, 10)
    tables.message("a/q", 2, 70)
    tables.deliver("a/q", "g", (1, 1), 20, 65)
    queue = {
        row["bucket"].timestamp() - START.timestamp(): (row["lag"], row["backlog_age_ms"])
        for row in rows(complete(tables))
        if row["grain"] == "minute" and not row["partition"]
    }
    assert queue == {0: (2, 55_000), 60: (2, 115_000)}


def test_of_a_queue_with_many_messages_percentiles_are_of_the_values_there_are(shop: Tables) -> None:
    found = journeys(shop.messages, shop.deliveries, shop.letters)
    exact, near = (rows(in_buckets(events(found, shop.deliveries), "none", large)) for large in ((), ("a",)))
    assert len(exact) == len(near) > 0
    waits = {tuple(row["wait"] or ()) for row in near if row["queue"] == "a" and row["grain"] == "minute"}
    assert waits == {(10_000, 20_000, 20_000), (), (20_000, 30_000, 30_000)}


def test_a_queue_is_no_task_of_its_own(shop: Tables) -> None:
    """Before anything of a queue is put in order, messages that were open over the same minutes are one row."""
    found = journeys(shop.messages, shop.deliveries, shop.letters)
    buckets = in_buckets(events(found, shop.deliveries), "none")
    plan = filled(found, buckets)._jdf.queryExecution().optimizedPlan().toString()
    windows = [line for line in plan.splitlines() if "Window" in line and "messages" in line]
    assert windows == []
    assert "Aggregate [queue" in plan


def test_the_summary_is_of_the_whole_time(shop: Tables) -> None:
    found = journeys(shop.messages, shop.deliveries, shop.letters)
    (row,) = [row for row in rows(summary(events(found, shop.deliveries))) if row["queue"] == "a"]
    assert (row["consumer_group"], row["messages_in"], row["messages_out"], row["messages_failed"]) == ("g", 4, 3, 2)
    assert row["wait_p50_ms"] == 20_000
    assert row["work_p99_ms"] == pytest.approx(19_800)


@pytest.mark.parametrize(
    ("text", "long"), [("90 seconds", 90), ("1 hour", 3600), ("0.5 day", 43_200), ("2 minutes", 120)]
)
def test_lengths_of_time_are_understood(text: str, long: float) -> None:
    assert seconds(text) == long


@pytest.mark.parametrize("text", ["soon", "1", "hour", "-1 hour", "1 fortnight"])
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(SparkError, match="a length of time must be like"):
        seconds(text)


def make_shop(url: str, prefix: str, until: float) -> None:
    """A few messages of the quarter of an hour that ends then."""

    async def work() -> None:
        async with Engine.connect(url) as engine:
            await store(engine, make_history(20, 0.01, seed=1, until=at(until), plain=True), prefix)

    asyncio.run(work())


def test_a_run_over_a_period_leaves_no_hole(pond: Pond) -> None:
    counted = "select count(*) from queen.rollups where queue = %s and grain = 'minute' and partition = ''"
    make_shop(pond.queues.url, "first.", 40_000)
    make_shop(pond.queues.url, "last.", 86_000)
    pond.run("archive")
    pond.run("rollups", period=Period(at(80_000), at(90_000)))
    assert (pond.queues.value(counted, "first.payments"), pond.queues.value(counted, "last.payments") > 0) == (0, True)
    pond.run("rollups")
    assert pond.queues.value(counted, "first.payments") > 0


def test_late_data_counts_whenever_it_comes(pond: Pond) -> None:
    counted = (
        "select coalesce(sum(messages_in), 0) from queen.rollups where queue = %s and partition = '' and grain = %s"
    )

    def count(queue: str, grain: str) -> int:
        return int(pond.queues.value(counted, queue, grain))

    make_shop(pond.queues.url, "first.", 40_000)
    pond.run("archive")
    pond.run("rollups")
    make_shop(pond.queues.url, "late.", 30_000)
    pond.run("archive")
    outcome = pond.run("rollups")
    assert outcome.figures["days"] == len(STAGES), "the day of each queue that is new"
    for grain in ("minute", "hour", "day"):
        assert count("late.payments", grain) == count("first.payments", grain) > 0


def test_a_bucket_nothing_is_left_of_goes(pond: Pond) -> None:
    make_shop(pond.queues.url, "", 40_000)
    pond.run("archive")
    pond.run("rollups")
    stale = """insert into queen.rollups (queue, grain, bucket) values ('payments', 'minute', %s) returning 1"""
    pond.queues.rows(stale, at(80_000))
    pond.queues.rows("delete from queen.pipeline_state returning 1")
    pond.queues.rows("update queen.pipeline_runs set versions = '{}' returning 1")
    pond.run("rollups")
    assert pond.queues.value("select count(*) from queen.rollups where bucket = %s", at(80_000)) == 0
