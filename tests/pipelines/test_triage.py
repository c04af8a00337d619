from __future__ import annotations

import shlex

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.pipelines.triage import (
    commands,
    described_at_once,
    died,
    how_many,
    normalised,
    recovered,
    stumbled,
    trend,
)
from tests.pipelines.support.frames import Tables, at, rows
from tests.spark.support.queues import Queues

TEXTS = [
    "KeyError: 'email'",
    "no order 4f9d8c1e-8f5b-4a52-9a57-0a1b2c3d4e5f in shop 12",
    "0xDEADbeef at 10.0.0.1:5432 after 3,5 s",
    'expected "a" but got "b"\nTraceback: line 3',
    "x" * 300,
    "",
]


def test_errors_are_normalised_as_the_database_does(spark: SparkSession, queues: Queues) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "error string")
    ours = [row["error"] for row in rows(frame.select(normalised(F.col("error")).alias("error")))]
    assert ours == [queues.value("select queen.normalise_error(%s)", text) for text in TEXTS]


def failures(spark: SparkSession) -> Tables:
    tables = Tables(spark)
    for seq in range(1, 9):
        tables.message("pay/p", seq, seq * 10, {"version": "2" if seq > 6 else "1", "n": seq})
    for seq in range(1, 7):
        tables.bury("pay/p", "bank", seq, seq * 100, f"card {seq} declined", {"version": "1", "n": seq})
    tables.bury("pay/p", "bank", 7, 700, "card 7 declined", {"version": "2"})
    tables.deliver("pay/p", "bank", (7, 8), 701, 702, "failed", failed=1)
    tables.deliver("pay/p", "bank", (8, 8), 703, 704)
    tables.deliver("pay/p", "bank", (3, 3), 290, 300, "failed", failed=1)
    return tables


def test_failures_fall_into_clusters(spark: SparkSession) -> None:
    tables = failures(spark)
    every = died(tables.letters, tables.redrives, "version").unionByName(
        recovered(tables.messages, stumbled(tables.deliveries, tables.letters), "version")
    )
    found = {(one["kind"], one["error"], one["version"]): one for one in described_at_once(every)}
    assert {key: one["count"] for key, one in found.items()} == {
        ("dead", "card <n> declined", "1"): 6,
        ("dead", "card <n> declined", "2"): 1,
        ("recovered", "failed, then recovered", "2"): 1,
    }
    cluster = found["dead", "card <n> declined", "1"]
    assert [one["id"] for one in cluster["examples"]] == ["pay/p#6", "pay/p#5", "pay/p#4"]
    assert cluster["examples"][0]["payload"] == '{"version": "1", "n": 6}'
    assert (cluster["first_seen"].timestamp(), cluster["last_seen"].timestamp()) == (
        at(100).timestamp(),
        at(600).timestamp(),
    )
    assert sum(cluster["slots"]) == 6
    assert cluster["groups"] == ["bank"]
    (redrive,) = cluster["redrive"]
    assert shlex.split(redrive["command"]) == [
        "queen", "dlq", "redrive", "--queue", "pay", "--group", "bank", "--error", "declined",
    ]  # fmt: skip
    assert redrive["also"] == 1


def test_as_many_clusters_as_there_are_values_stay_where_they_are(spark: SparkSession) -> None:
    """Of a day with more clusters than people look at, the largest come to the driver."""
    many = spark.range(3000).selectExpr(
        "'dead' as kind", "'q' as queue", "cast(id % 1500 as string) as error", "'' as version",
        "'g' as consumer_group",
        "cast(id as string) as partition", "timestamp'2026-01-01' as failed_at", "cast(id as string) as id",
        "'{}' as payload", "'' as text", "false as redriven",
    )  # fmt: skip
    found = list(described_at_once(many.unionByName(many.where("error = '7'"))))
    assert len(found) == 500
    assert (found[0]["error"], found[0]["count"], found[0]["partitions"]) == ("7", 4, 2)


def test_many_partitions_are_counted_within_three_percent(spark: SparkSession) -> None:
    hashes = [row[0] for row in spark.range(20_000).selectExpr("xxhash64(cast(id as string))").collect()]
    assert how_many({str(one): 1 for one in sorted(hashes)[:1000]}) == pytest.approx(20_000, rel=0.06)
    assert how_many({str(one): 1 for one in hashes[:999]}) == 999


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ([0] * 18 + [1] * 6, "rising"),
        ([4] * 24, "steady"),
        ([9] * 12 + [0] * 12, "falling"),
        ([1] + [0] * 23, "steady"),
    ],
)
def test_trends(slots: list[int], told: str) -> None:
    assert trend(slots) == told


def test_a_command_quotes_what_a_shell_would_read() -> None:
    cluster = {"kind": "dead", "queue": "a b", "groups": ["it's"], "error": "$(rm) <n>", "count": 1}
    (found,) = commands(cluster, [cluster])
    assert shlex.split(found["command"])[3:] == ["--queue", "a b", "--group", "it's", "--error", "$(rm)"]
