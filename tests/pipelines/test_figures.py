"""A shop is made up, archived and analysed by the commands; the figures of its report are worked out again."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from queen.cli import main
from tests.pipelines.support.figures import KEYS, RANKS, Figures, differences, frame
from tests.spark.support.processes import Process
from tests.spark.test_cluster import Cluster
from tests.support.postgres import TEMPLATE, Postgres

SIZES = [8_000, pytest.param(200_000, marks=[pytest.mark.scale, pytest.mark.timeout(1800)])]
SMALL = ["--conf", "spark.executor.memory=600m", "--conf", "spark.driver.memory=800m"]
VARYING = ("run", "commit", "files", "files_read", "swept", "path", "bytes", "lake")
"""Which run it was, how its rows are cut into files, where its page is, and how long with the time it was written."""
ROLLUPS = """select to_jsonb(r) - 'computed_at' as row from queen.rollups r
              order by queue, grain, bucket, partition, consumer_group"""
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Analysed:
    """A shop, what `queen pipeline run` printed of each pipeline, and the report it wrote."""

    url: str
    planted: dict[str, Any]
    printed: dict[str, dict[str, Any]]

    @cached_property
    def page(self) -> str:
        return Path(self.printed["report"]["path"]).read_text(encoding="utf-8")

    @cached_property
    def report(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        match = re.search(r'id="figures">(.*?)</script>', self.page, re.DOTALL)
        assert match is not None
        found: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(match[1])["found"]
        return found

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        return {
            name: {key: value for key, value in printed.items() if key not in VARYING}
            for name, printed in self.printed.items()
        }

    def rows(self, pipeline: str, kind: str) -> list[dict[str, Any]]:
        return self.report[pipeline][kind]


def queen(*arguments: str) -> str:
    """What a command prints."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def run(url: str, lake: Path, planted: dict[str, Any], master: str) -> list[str]:
    """The command that runs every pipeline on a shop; on one with nothing planted, those that might find something."""
    known = ",".join(trace["trace_id"] for trace in planted["known_traces"])
    names = ["all", "reconcile"] if planted["hot_keys"] else ["archive", "traces", "triage", "skew", "report"]
    return [
        "pipeline", "run", *names, "--once", "--lake", str(lake), "--url", url, "--master", master,
        "--option", f"traces={known}", "-o", "json",
    ]  # fmt: skip


def printed(text: str) -> dict[str, dict[str, Any]]:
    """What was printed of each pipeline."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {line["pipeline"]: line for line in lines}


def analyse(url: str, lake: Path, *demo: str) -> Analysed:
    """Make a shop, and run every pipeline on it as an operator would."""
    planted = json.loads(queen("demo", "--url", url, "--days", "7", "-o", "json", *demo))
    return Analysed(url, planted, printed(queen(*run(url, lake, planted, "local[2]"))))


@pytest.fixture(scope="module", params=SIZES, ids=["small", "full"])
def shop(
    request: pytest.FixtureRequest, spark: SparkSession, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Analysed]:
    """A shop analysed in the session of the tests."""
    with postgres.scratch(TEMPLATE) as url:
        yield analyse(url, tmp_path_factory.mktemp("shop") / "lake", "--messages", str(request.param))


@pytest.fixture(scope="module")
def figures(shop: Analysed) -> Figures:
    return Figures(shop.url)


@pytest.mark.parametrize("grain", ["minute", "hour", "day"])
@pytest.mark.parametrize("whole", [True, False], ids=["queues", "partitions"])
def test_rollups_are_what_sql_and_pandas_count(shop: Analysed, figures: Figures, grain: str, whole: bool) -> None:
    stored = frame(shop.url, f"select * from queen.rollups where grain = '{grain}' and (partition = '') = {whole}")
    stored["bucket"] = pd.to_datetime(stored.bucket, utc=True)
    stored = stored.set_index([*KEYS, "bucket"]).sort_index()
    expected = figures.rollups(grain, whole=whole)
    assert len(stored) > 0
    assert list(stored.index) == list(expected.index)
    for name in ("messages_in", "messages_out", "messages_failed", "bytes_in"):
        assert (stored[name] == expected[name]).all(), name
    for name in (f"{what}_{rank}_ms" for what in ("wait", "work") for rank in RANKS):
        assert (stored[name].isna() == expected[name].isna()).all(), name
        assert (stored[name] - expected[name]).abs().max() < 0.001, name


def test_lag_and_age_of_the_backlog_are_those_at_the_end_of_the_bucket(shop: Analysed, figures: Figures) -> None:
    stored = frame(shop.url, "select * from queen.rollups where grain = 'hour' and consumer_group <> ''")
    stored["end"] = pd.to_datetime(stored.bucket, utc=True) + pd.Timedelta(hours=1)
    assert stored.lag.max() > 100
    sample: list[Any] = stored.sample(150, random_state=1).to_dict("records")
    for row in sample:
        lag, age = figures.backlog(row["queue"], row["consumer_group"], row["end"], row["partition"])
        assert row["lag"] == lag, row
        assert row["backlog_age_ms"] == pytest.approx(age, abs=1), row


def test_the_report_sums_up_the_whole_time(shop: Analysed, figures: Figures) -> None:
    found = {(row["queue"], row["consumer_group"]): row for row in shop.rows("rollups", "queues")}
    grouped = figures.journeys.groupby(["queue", "consumer_group"])
    assert set(found) == set(grouped.groups)
    for key, rows in grouped:
        row = found[str(key[0]), str(key[1])]
        done = rows[~rows.dead].finished_at.notna().sum()
        assert (row["messages_in"], row["messages_out"], row["bytes_in"]) == (len(rows), done, rows.bytes.sum())
        for name, rank in RANKS.items():
            assert row[f"wait_{name}_ms"] == pytest.approx(rows.wait_ms.quantile(rank), rel=0.0101, abs=0.002)
    assert (
        sum(row["messages_in"] for row in found.values() if row["consumer_group"] != "analytics")
        == (shop.planted["messages"])
    )


def test_critical_paths_of_known_traces(shop: Analysed, figures: Figures) -> None:
    found = {row["trace_id"]: row for row in shop.rows("traces", "traces")}
    assert len(shop.planted["known_traces"]) == 20
    for known in shop.planted["known_traces"]:
        row = found[known["trace_id"]]
        path = [hop["id"] for hop in row["path"]]
        assert path == known["path"]
        assert row["total_ms"] == pytest.approx(known["seconds"] * 1000, abs=0.01)
        expected, total = figures.critical_path(known["trace_id"])
        assert path == expected
        assert row["total_ms"] == pytest.approx(total, abs=0.01)


def test_edges_are_counted(shop: Analysed) -> None:
    expected = frame(
        shop.url,
        """select a.name as source, b.name as target, count(*) as count,
                  percentile_cont(0.95) within group (order by
                      extract(epoch from m.created_at - p.created_at) * 1000) as p95
             from queen.messages m join queen.messages p on p.id = m.parent_id
             join queen.partitions mp on mp.id = m.partition_id join queen.queues b on b.id = mp.queue_id
             join queen.partitions pp on pp.id = p.partition_id join queen.queues a on a.id = pp.queue_id
            group by 1, 2""",
    )
    found = {(row["source"], row["target"]): row for row in shop.rows("traces", "edges")}
    assert set(found) == {(row.source, row.target) for row in expected.itertuples()}
    for row in expected.itertuples():
        assert found[row.source, row.target]["count"] == row.count
        assert found[row.source, row.target]["latency_p95_ms"] == pytest.approx(row.p95, rel=0.0101, abs=0.002)


def test_every_planted_fault_is_found_and_no_other(shop: Analysed) -> None:
    planted = shop.planted
    hot = {(row["queue"], row["partition"], row["messages"]) for row in shop.rows("skew", "hot_partitions")}
    keys = {(row["queue"], row["field"], row["key"], row["messages"]) for row in shop.rows("skew", "hot_keys")}
    named = [(one["queue"], one["field"], one["key"], one["messages"]) for one in planted["hot_keys"]]
    assert hot == {(queue, key, count) for queue, field, key, count in named if field == "partition"}
    assert keys == {each for each in named if each[1] != "partition"}

    dead = [row for row in shop.rows("triage", "clusters") if row["kind"] == "dead"]
    assert sorted((row["queue"], row["version"], row["error"], row["count"]) for row in dead) == sorted(
        (one["queue"], one["version"], one["error"], one["messages"]) for one in planted["error_clusters"]
    )
    assert len(dead) == 5
    assert sorted(row["trace_id"] for row in shop.rows("traces", "broken")) == planted["broken_traces"]
    blocked = [
        (row["queue"], row["partition"], row["consumer_group"], row["held_by"]) for row in shop.rows("skew", "blocked")
    ]
    assert "orders: group analytics fell" in shop.page
    assert blocked == [(one["queue"], one["partition"], one["group"], one["seq"]) for one in planted["blocked_lanes"]]


def test_hot_partitions_are_split_by_what_splits_them_best(shop: Analysed, figures: Figures) -> None:
    found = shop.rows("skew", "hot_partitions")
    for row in found:
        split = row["split"]
        assert (split["field"], split["lanes"], split["enough"]) == figures.split(row["queue"], row["partition"])
    assert "store" in {row["split"]["field"] for row in found}


def test_gini_and_counts_per_queue(shop: Analysed, figures: Figures) -> None:
    found = {row["queue"]: row for row in shop.rows("skew", "queues")}
    assert {queue: row["gini"] for queue, row in found.items()} == pytest.approx(figures.gini(), abs=1e-9)
    assert sum(row["messages"] for row in found.values()) == shop.planted["messages"]


def test_redriving_a_cluster_by_its_command_takes_what_it_says(shop: Analysed) -> None:
    for row in shop.rows("triage", "clusters"):
        for redrive in row["redrive"]:
            words = shlex.split(redrive["command"])[1:]
            told = json.loads(queen(*words, "--url", shop.url, "--dry-run", "-o", "json"))
            assert told["matched"] == row["count"] + redrive["also"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def test_a_cluster_of_three_processes_gives_the_same_figures(shop: Analysed, cluster: Cluster, tmp_path: Path) -> None:
    stored = frame(shop.url, ROLLUPS)
    with psycopg.connect(shop.url) as connection:
        connection.execute("truncate queen.rollups")
    command = run(shop.url, tmp_path / "lake", shop.planted, cluster.url)
    with Process([sys.executable, "-m", "queen", *command, *SMALL], tmp_path / "log", LOOPBACK) as driver:
        assert driver.wait(1500) == 0, driver.log.read_text()[-4000:]
    there = Analysed(shop.url, shop.planted, printed(driver.log.read_text()))
    assert [*there.figures] == ["archive", "rollups", "traces", "triage", "skew", "report", "reconcile"]
    assert list(differences(shop.figures, there.figures)) == []
    assert list(differences(shop.report, there.report)) == []
    assert frame(shop.url, ROLLUPS).row.to_list() == stored.row.to_list()


@pytest.mark.usefixtures("spark")
def test_nothing_is_reported_of_a_plain_shop(database: str, tmp_path: Path) -> None:
    plain = analyse(database, tmp_path / "lake", "--messages", "5000", "--plain")
    assert sum(row["messages"] for row in plain.rows("skew", "queues")) == 5000
    assert plain.rows("skew", "hot_partitions") == plain.rows("skew", "hot_keys") == plain.rows("skew", "blocked") == []
    assert plain.rows("triage", "clusters") == plain.rows("traces", "broken") == []
    assert "Nothing stands out" in plain.page
