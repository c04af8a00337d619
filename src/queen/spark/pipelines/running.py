"""Running pipelines: one or all, once or on and on, each run recorded from its start to its end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, Self, cast

from pyspark.errors import PySparkException

from queen.errors import QueenError
from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.lake import Lake
from queen.spark.pipelines.definition import (
    ALL,
    Context,
    Outcome,
    Period,
    Pipeline,
    Progress,
    find,
    without_passwords,
)
from queen.spark.pipelines.results import RunResults
from queen.spark.pipelines.runs import OURS as OUR_VERSION
from queen.spark.pipelines.runs import Run, Runs
from queen.spark.session import require_master

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
    lake: str | Path
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

    @property
    def on_spark(self) -> bool:
        """Whether any of them needs Spark."""
        return any(each.on_spark for each in self.pipelines)


@dataclass(frozen=True)
class Finished:
    """A pipeline that ended well."""

    pipeline: str
    run_id: str
    outcome: Outcome


class Runner:
    """Runs pipelines of one job in one Spark session, or in one that is started once it is needed."""

    def __init__(
        self, job: Job, spark: SparkSession | Callable[[], SparkSession] | None, watcher: Progress | None = None
    ) -> None:
        self.job = job
        self._session = spark if callable(spark) else lambda: cast("SparkSession", spark)
        self.watcher = watcher
        self.stopping = Event()

    def run(self) -> list[Finished]:
        """Run everything once, or round after round until `stopping` is set: then one record stands for all rounds."""
        pipelines = self.job.pipelines
        settled = settle(self.job, pipelines)
        database = Database(self.job.url)
        try:
            lake = lake_of(self.job, database, pipelines)
            with Records(self.job, database, lake, self.watcher) as records:
                while True:
                    for each in pipelines:
                        self._run(records, lake, each, settled[each.name])
                    if self.job.every is None or self.stopping.wait(self.job.every):
                        return records.finish()
        finally:
            database.close()

    def _run(self, records: Records, lake: Lake, pipeline: Pipeline, options: Mapping[str, str]) -> None:
        run = records.run(pipeline, options)
        results = RunResults(run.database, run.id)
        context = Context(self._session, self.job.url, lake, self.job.period, options, run, results, run.id, run.began)
        try:
            outcome = records.found_before(pipeline, options) or pipeline(context)
        except KeyboardInterrupt:
            records.fail(pipeline, "stopped by hand")
            raise
        except Exception as error:
            told = in_our_words(error)
            records.fail(pipeline, str(told))
            if told is error:
                raise
            raise told from error
        records.note(pipeline, outcome)


class Records:
    """The run records of one job: started with the first round, ended with the last."""

    def __init__(self, job: Job, database: Database, lake: Lake, watcher: Progress | None) -> None:
        self._job = job
        self._database = database
        self._lake = lake
        self._watcher = watcher
        self._open: dict[str, Run] = {}
        self._done: dict[str, Finished] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def run(self, pipeline: Pipeline, options: Mapping[str, str]) -> Run:
        """The record of a pipeline, new or that of the round before."""
        if pipeline.name not in self._open:
            job = self._job
            run = Runs(self._database).start(
                pipeline.name,
                lake=self._lake.place.address,
                master=job.master,
                period=job.period,
                options=options,
                read=self._read(pipeline) if pipeline.steady else None,
            )
            run.watcher = self._watcher
            self._open[pipeline.name] = run
        return self._open[pipeline.name]

    def found_before(self, pipeline: Pipeline, options: Mapping[str, str]) -> Outcome | None:
        """What the pipeline found the last time, if nothing is new since: it is then what this run has found too."""
        if not pipeline.steady or self._job.every is not None:
            return None
        ask = {
            "pipeline": pipeline.name, "lake": self._lake.place.address, "options": without_passwords(options),
            "versions": {**OUR_VERSION, **self._read(pipeline)}, **self._job.period.asked(),
        }  # fmt: skip
        for before in self._database.rows("pipelines/last_figures", **ask):
            run = self._open[pipeline.name]
            self._database.rows("pipelines/carry_results", id=run.id, before=before["id"])
            run.step("nothing is new", 1, 1)
            return Outcome(before["rows"], {"same_as": before["id"], **json.loads(before["figures"])})
        return None

    def _read(self, pipeline: Pipeline) -> dict[str, object]:
        """Which lake a pipeline reads, and up to where."""
        reaches = {table: asdict(reach) for table in pipeline.reads if (reach := self._lake.reach(table)) is not None}
        return {"lake": self._lake.identity.id, "reaches": reaches}

    def note(self, pipeline: Pipeline, outcome: Outcome) -> None:
        """A round of a pipeline went well; if it is the only one, so did the run."""
        run, before = self._open[pipeline.name], self._done.get(pipeline.name)
        rows = outcome.rows + (before.outcome.rows if before else 0)
        self._done[pipeline.name] = Finished(pipeline.name, run.id, Outcome(rows, outcome.figures))
        if self._job.every is None:
            self._finish(pipeline.name)
        else:
            run.beat(rows)

    def fail(self, pipeline: Pipeline, error: str) -> None:
        """A pipeline did not go well."""
        self._open.pop(pipeline.name).fail(error)

    def finish(self) -> list[Finished]:
        """What is still open ends here."""
        for name in list(self._open):
            self._finish(name)
        return list(self._done.values())

    def _finish(self, name: str) -> None:
        outcome = self._done[name].outcome if name in self._done else Outcome(0)
        self._open.pop(name).finish(outcome, self._lag())

    def _lag(self) -> int | None:
        reach = self._lake.reach("messages")
        if reach is None or reach.pos is None:
            return None
        lag: int = self._database.row("pipelines/archive_lag", **{"from": reach.pos})["lag"]
        return lag


def check(job: Job) -> None:
    """Refuse what can be refused before Spark is started: names, options, the lake."""
    pipelines = job.pipelines
    settle(job, pipelines)
    if job.on_spark:
        require_master(job.master)
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
    if pipelines[0].name == "archive":
        here = database.row("where_we_are")
        return Lake.make(job.lake, here["database"], here["removed"])
    lake = Lake.open(job.lake)
    if any(not each.foreign for each in pipelines):
        lake.require_database(database.row("identity")["database"])
    return lake


def in_our_words(error: Exception) -> Exception:
    """Our own error, if that is what Spark wrapped; Spark's own in a sentence; any other as it is."""
    if isinstance(error, QueenError):
        return error
    found = OURS.search(str(error))
    if found:
        return SparkError(found["code"], found["message"])
    if isinstance(error, PySparkException):
        return SparkError("SPARK_FAILED", str(error).strip().partition("\n")[0])
    return error
