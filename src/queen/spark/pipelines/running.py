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
        settled = {each.name: each.settle(self._given(each, pipelines)) for each in pipelines}
        database = Database(self.job.url)
        try:
            lake = self._lake(database, pipelines)
            while True:
                done = [self._run(database, lake, each, settled[each.name]) for each in pipelines]
                if self.job.every is None or self.stopping.wait(self.job.every):
                    return done
        finally:
            database.close()

    def _given(self, pipeline: Pipeline, among: Sequence[Pipeline]) -> Mapping[str, str]:
        """The options given: all of them for one pipeline; among several each takes those it declares."""
        if len(among) == 1:
            return self.job.options
        unknown = [name for name in self.job.options if not any(name in each.options for each in among)]
        if unknown:
            raise SparkError("INVALID_OPTION", f"none of these pipelines has an option {unknown[0]!r}")
        return {name: value for name, value in self.job.options.items() if name in pipeline.options}

    def _lake(self, database: Database, pipelines: Sequence[Pipeline]) -> Lake:
        here: str = database.row("identity")["database"]
        if pipelines[0].name == "archive":
            return Lake.make(self.job.lake, here)
        lake = Lake.open(self.job.lake)
        if any(not each.foreign for each in pipelines):
            lake.require_database(here)
        return lake

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


def in_our_words(error: Exception) -> Exception:
    """Our own error, if that is what Spark wrapped; any other as it is."""
    if isinstance(error, QueenError):
        return error
    found = OURS.search(str(error))
    return SparkError(found["code"], found["message"]) if found else error
