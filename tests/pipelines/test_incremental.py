"""Analyses that read what is new come to what plain Python comes to over everything, whatever comes late."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queen.spark.database import Database
from queen.spark.lake import Lake
from queen.spark.pipelines.definition import Outcome
from queen.spark.pipelines.running import Job, Runner
from tests.pipelines.support.facts import DAY, START, archive, make_facts
from tests.pipelines.support.lakes import Pond
from tests.pipelines.support.recount import RANKS, Recount, in_lake, percentile, within_one_percent

CUTS = (START + 3.4 * DAY, START + 4.3 * DAY, START + 60 * DAY)
SEED = 5
STORED = "select to_jsonb(r) - 'computed_at' from queen.rollups r"
RESULTS = """select x.value from queen.pipeline_results x where x.kind = %s and x.run_id = (
                select id from queen.pipeline_runs where pipeline = %s order by started_at desc limit 1)"""


class Watched:
    """A lake that grows, its analyses, and what they must come to."""

    def __init__(self, pond: Pond, lake: Lake) -> None:
        self.pond = pond
        self.lake = lake
        self.facts = make_facts(SEED)
        self.outcomes: dict[str, Outcome] = {}

    def grow(self, until: datetime) -> Recount:
        archive(self.lake, self.facts, until)
        self.outcomes = {name: self.pond.run(name) for name in ("rollups", "traces", "triage")}
        reach = self.lake.reach("messages")
        assert reach is not None
        return Recount(in_lake(self.facts, until, reach.pos or 0))

    def results(self, pipeline: str, kind: str) -> list[dict[str, Any]]:
        return [row[0] for row in self.pond.queues.rows(RESULTS, kind, pipeline)]


@pytest.fixture
def watched(pond: Pond) -> Watched:
    database = Database(pond.queues.url)
    try:
        lake = Lake.make(pond.path, database.row("identity")["database"])
    finally:
        database.close()
    return Watched(pond, lake)


@pytest.mark.timeout(900)
def test_every_figure_is_what_plain_python_comes_to_after_each_late_fact(watched: Watched) -> None:
    expected = Recount(watched.facts)
    for number, until in enumerate(CUTS):
        expected = watched.grow(until)
        same_rollups(watched, expected)
        same_summary(watched, expected)
        same_clusters(watched, expected)
        same_traces(watched, expected)
        figures: dict[str, Any] = dict(watched.outcomes["rollups"].figures)
        assert (figures["files_read"] < figures["files"]) is (number > 0), "the first time everything, then what is new"
    watched.pond.run("skew")
    gini = {row["queue"]: row["gini"] for row in watched.results("skew", "queues")}
    assert gini == pytest.approx(expected.gini(), abs=1e-9)


def same_rollups(watched: Watched, expected: Recount) -> None:
    stored = {}
    for (row,) in watched.pond.queues.rows(STORED):
        bucket = datetime.fromisoformat(row["bucket"]).astimezone(UTC)
        stored[row["queue"], row["partition"], row["consumer_group"], row["grain"], bucket] = row
    wanted = expected.rollups()
    assert stored.keys() == wanted.keys()
    for key, figures in wanted.items():
        for name, value in figures.items():
            assert stored[key][name] == (None if value is None else pytest.approx(value, abs=0.001)), (key, name)


def same_summary(watched: Watched, expected: Recount) -> None:
    found = {(row["queue"], row["consumer_group"]): row for row in watched.results("rollups", "queues")}
    wanted = expected.summary()
    assert found.keys() == wanted.keys()
    for key, figures in wanted.items():
        for name, value in figures.items():
            assert within_one_percent(found[key][name], value), (key, name, found[key][name], value)


def same_clusters(watched: Watched, expected: Recount) -> None:
    rows = watched.results("triage", "clusters")
    found = {(row["kind"], row["queue"], row["error"], row["version"]): row for row in rows}
    wanted = expected.clusters()
    assert found.keys() == wanted.keys()
    assert {key[0] for key in wanted} == {"dead", "recovered"}
    for key, figures in wanted.items():
        row = found[key]
        assert [one["id"] for one in row["examples"]] == figures.pop("examples"), key
        for name in ("first_seen", "last_seen"):
            assert datetime.fromisoformat(row[name]) == figures.pop(name), key
        assert {name: row[name] for name in figures} == figures, key
    figures_of = watched.outcomes["triage"].figures
    kinds = Counter(key[0] for key, _ in expected.failures())
    assert (figures_of["dead_letters"], figures_of["recovered"]) == (kinds["dead"], kinds["recovered"])


def same_traces(watched: Watched, expected: Recount) -> None:
    wanted = expected.traces()
    figures: dict[str, Any] = dict(watched.outcomes["traces"].figures)
    broken = {name for name, one in wanted.items() if one["broken"]}
    assert (figures["traces"], figures["broken"]) == (len(wanted), len(broken))
    assert figures["hops"] == max(one["hops"] for one in wanted.values())
    for name, rank in RANKS.items():
        assert within_one_percent(
            figures[f"total_{name}_ms"], percentile([t["total_ms"] for t in wanted.values()], rank)
        )
    assert {row["trace_id"] for row in watched.results("traces", "broken")} == broken
    slowest = sorted(wanted, key=lambda name: (-wanted[name]["total_ms"], name))[:20]
    shown = {row["trace_id"]: row for row in watched.results("traces", "traces")}
    assert set(shown) == set(slowest)
    for name, row in shown.items():
        assert [hop["id"] for hop in row["path"]] == wanted[name]["path"]
        assert row["total_ms"] == pytest.approx(wanted[name]["total_ms"], abs=0.01)
    edges: dict[tuple[str, str], list[float]] = {}
    for one in wanted.values():
        for source, target, latency in one["edges"]:
            edges.setdefault((source, target), []).append(latency)
    told = {(row["source"], row["target"]): row for row in watched.results("traces", "edges")}
    assert {key: row["count"] for key, row in told.items()} == {key: len(found) for key, found in edges.items()}
    for key, found in edges.items():
        for name, rank in RANKS.items():
            assert within_one_percent(told[key][f"latency_{name}_ms"], percentile(found, rank))
    shapes = Counter(one["shape"] for one in wanted.values() if not one["broken"])
    assert {row["shape"]: row["count"] for row in watched.results("traces", "shapes")} == shapes


@pytest.mark.timeout(900)
def test_with_nothing_new_the_results_are_those_of_before_and_spark_is_not_started(watched: Watched) -> None:
    archive(watched.lake, watched.facts, CUTS[-1])
    before = watched.pond.run("triage")
    found = watched.results("triage", "clusters")

    def refused() -> SparkSession:
        raise AssertionError("Spark was started")

    job = Job(["triage"], watched.pond.queues.url, watched.pond.path, "local[2]")
    again = Runner(job, refused).run()[-1].outcome
    assert "same_as" in again.figures
    assert {key: value for key, value in again.figures.items() if key != "same_as"} == before.figures
    assert again.rows == before.rows == len(found) > 0
    assert watched.results("triage", "clusters") == found
    other = Job(["triage"], watched.pond.queues.url, watched.pond.path, "local[2]", options={"version": "n"})
    with pytest.raises(AssertionError, match="Spark was started"):
        Runner(other, refused).run()
