from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from queen.spark.errors import SparkError
from queen.spark.pipelines.definition import Period
from queen.spark.pipelines.replay import Pace
from queen.spark.pipelines.running import Job, Runner
from tests.pipelines.support.lakes import Pond
from tests.spark.support.queues import Queues

DAY = Period(datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))


@pytest.fixture
def day(pond: Pond) -> Pond:
    """Three days of messages in the lake, none of them in the database any more."""
    for date in (1, 2, 3):
        pond.queues.fill("orders", partitions=3, per_partition=40)
        pond.queues.push("orders", "p1", {"special": date}, transaction_id=f"t-{date}", trace_id="0" * 32)
        pond.queues.rows(
            "update queen.messages set created_at = %s where created_at > '2026-02-01' returning 1",
            datetime(2026, 1, date, 12, tzinfo=UTC),
        )
    pond.run("archive")
    pond.queues.rows("select queen.clear_queue('orders')")
    return pond


def expected(date: int) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {f"p{p}": [{"p": p, "n": n} for n in range(40)] for p in range(3)}
    found["p1"].append({"special": date})
    return found


def ids(queues: Queues, queue: str) -> list[str]:
    return sorted(
        row[0]
        for row in queues.rows(
            """select coalesce(m.transaction_id, m.id::text) from queen.messages m
                 join queen.partitions p on p.id = m.partition_id join queen.queues q on q.id = p.queue_id
                where q.name = %s""",
            queue,
        )
    )


def test_a_day_comes_back_in_order_and_only_once(day: Pond) -> None:
    first = day.run("replay", period=DAY, queue="orders", to="again", rows="50")
    assert (first.rows, first.figures["duplicates"]) == (121, 0)
    assert day.queues.contents("again") == expected(2)
    rows = day.lake.read(day.spark, "messages").where("date(created_at) = '2026-01-02'").collect()
    assert ids(day.queues, "again") == sorted(row.transaction_id for row in rows)
    assert day.queues.value("select count(*) from queen.messages where trace_id is not null") == 1
    assert day.run("replay", period=DAY, queue="orders", to="again", rows="50").rows == 0
    assert day.run("replay", period=DAY, queue="orders", to="again").rows == 0, "another cut, the same messages"
    assert day.queues.contents("again") == expected(2)
    day.queues.rows("select queen.clear_queue('again')")
    assert day.run("replay", period=DAY, queue="orders", to="again", rows="50").rows == 0, "gone is gone"


class Stop:
    """Breaks a run off after its first step."""

    def step(self, name: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt


def test_a_replay_that_was_stopped_goes_on_where_it_was(day: Pond) -> None:
    options = {"queue": "orders", "to": "again", "rows": "50"}
    job = Job(["replay"], day.queues.url, day.path, "local[2]", DAY, options)
    with pytest.raises(KeyboardInterrupt):
        Runner(job, day.spark, Stop()).run()
    there = day.queues.value("select count(*) from queen.messages")
    assert 0 < there < 121
    assert day.queues.rows("select state, error from queen.pipeline_runs where pipeline = 'replay'") == [
        ("failed", "stopped by hand")
    ]
    assert day.run("replay", period=DAY, **options).rows == 121 - there
    assert day.queues.contents("again") == expected(2)


def test_a_dry_run_counts_and_changes_nothing(day: Pond) -> None:
    outcome = day.run("replay", period=DAY, queue="orders", dry_run="true")
    assert (outcome.rows, outcome.figures["messages"], outcome.figures["partitions"]) == (0, 121, 3)
    assert day.queues.value("select count(*) from queen.messages") == 0
    counts = day.queues.rows("select key, (value ->> 'messages')::int from queen.pipeline_results order by key")
    assert counts == [("p0", 40), ("p1", 41), ("p2", 40)]


def anonymous(messages: DataFrame) -> DataFrame:
    return messages.withColumn("payload", f.lit('{"hidden": true}'))


def test_a_rate_is_kept() -> None:
    began, pace = monotonic(), Pace(100)
    for _ in range(3):
        pace.wait(10)
    assert 0.3 <= monotonic() - began < 5


def test_a_condition_a_mapping_and_a_rate(day: Pond) -> None:
    outcome = day.run(
        "replay", queue="orders", to="again", rate="200",
        where="get_json_object(payload, '$.n') >= 35 and partition = 'p2'",
        map="tests.pipelines.test_replay:anonymous",
    )  # fmt: skip
    assert outcome.rows == 15
    assert day.queues.contents("again") == {"p2": [{"hidden": True}] * 15}


def test_one_group_gets_history_back_beside_the_queue(day: Pond) -> None:
    outcome = day.run("replay", period=DAY, queue="orders", group="billing")
    assert outcome.figures["queue"] == "orders.replay.billing"
    assert day.queues.contents("orders") == {}
    assert day.queues.contents("orders.replay.billing") == expected(2)
    groups = day.queues.rows("select consumer_group, mode from queen.subscriptions")
    assert groups == [("billing", "all")]


def test_a_queue_the_lake_does_not_have_is_told(day: Pond) -> None:
    with pytest.raises(SparkError, match="did you mean 'orders'") as caught:
        day.run("replay", queue="order")
    assert caught.value.code == "QUEUE_NOT_FOUND"
