"""Running pipelines: one or all, once or on and on, each run recorded from its start to its end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from queen.errors import QueenError
from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.lake import Lake
from queen.spark.pipelines.definition import ALL, Context, Outcome, Period, Pipeline, Progress, find
from queen.spark.pipelines.results import RunResults
from queen.spark.pipelines.runs import Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS: Final = re.compile(r"SparkError: (?P<message>[^\n]*?) \[(?P<code>[A-Z_]+)\]")
SETTINGS: Final = {
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.adaptive.enabled": "true",
}


@dataclass(frozen=True)
class Job:
    """What to run, on what, and how long."""

    names: Sequence[str]
    url: str
    lake: Path
    master: str = "local[*]"
    period: Period = field(default_factory=Period)
    options: Mapping[str, str] = field(default_factory=dict)
    every: float | None = None
    """Seconds between rounds; None: one round only."""

    @property
    def pipelines(self) -> list[Pipeline]:
        """The pipelines to run, in order; `all` stands for those that build on each other."""
        names = [each for name in self.names for each in (ALL if name == "all" else (name,))]
        return [find(name) for name in dict.fromkeys(names)]


@dataclass(frozen=True)
class Finished:
    """A pipeline that ended well."""

    pipeline: str
    run_id: str
    outcome: Outcome


class Runner:
    """Runs pipelines of one job in one Spark session."""

    def __init__(self, job: Job, spark: SparkSession, watcher: Progress | None = None) -> None:
        self.job = job
        self.spark = spark
        self.watcher = watcher
        self.stopping = Event()

    def run(self) -> list[Finished]:
        """Run everything once, or round after round until `stopping` is set; the outcome of the last round."""
        pipelines = self.job.pipelines
        settled = settle(self.job, pipelines)
        database = Database(self.job.url)
        try:
            lake = lake_of(self.job, database, pipelines)
            while True:
                done = [self._run(database, lake, each, settled[each.name]) for each in pipelines]
                if self.job.every is None or self.stopping.wait(self.job.every):
                    return done
        finally:
            database.close()

    def _run(self, database: Database, lake: Lake, pipeline: Pipeline, options: Mapping[str, str]) -> Finished:
        job = self.job
        run = Runs(database).start(
            pipeline.name, lake=str(lake.path), master=job.master, period=job.period, options=options
        )
        run.watcher = self.watcher
        results = RunResults(database, run.id)
        context = Context(self.spark, job.url, lake, job.period, options, run, results, run.id)
        try:
            outcome = pipeline(context)
        except KeyboardInterrupt:
            run.fail("stopped by hand")
            raise
        except Exception as error:
            told = in_our_words(error)
            run.fail(str(told))
            if told is error:
                raise
            raise told from error
        run.finish(outcome, self._lag(database, lake))
        return Finished(pipeline.name, run.id, outcome)

    def _lag(self, database: Database, lake: Lake) -> int | None:
        reach = lake.reach("messages")
        if reach is None or reach.pos is None:
            return None
        lag: int = database.row("pipelines/archive_lag", **{"from": reach.pos})["lag"]
        return lag


def check(job: Job) -> None:
    """Refuse what can be refused before Spark is started: names, options, the lake."""
    pipelines = job.pipelines
    settle(job, pipelines)
    database = Database(job.url)
    try:
        lake_of(job, database, pipelines)
    finally:
        database.close()


def settle(job: Job, pipelines: Sequence[Pipeline]) -> dict[str, Mapping[str, str]]:
    """The options of each pipeline: those given, if it is one; among several each takes those it declares."""
    given = job.options
    if len(pipelines) == 1:
        return {pipelines[0].name: pipelines[0].settle(given)}
    unknown = [name for name in given if not any(name in each.options for each in pipelines)]
    if unknown:
        raise SparkError("INVALID_OPTION", f"none of these pipelines has an option {unknown[0]!r}")
    return {
        each.name: each.settle({name: value for name, value in given.items() if name in each.options})
        for each in pipelines
    }


def lake_of(job: Job, database: Database, pipelines: Sequence[Pipeline]) -> Lake:
    """The lake of a job; the archive makes one, others need one, of this very database unless they say otherwise."""
    here: str = database.row("identity")["database"]
    if pipelines[0].name == "archive":
        return Lake.make(job.lake, here)
    lake = Lake.open(job.lake)
    if any(not each.foreign for each in pipelines):
        lake.require_database(here)
    return lake


def in_our_words(error: Exception) -> Exception:
    """Our own error, if that is what Spark wrapped; any other as it is."""
    if isinstance(error, QueenError):
        return error
    found = OURS.search(str(error))
    return SparkError(found["code"], found["message"]) if found else error
