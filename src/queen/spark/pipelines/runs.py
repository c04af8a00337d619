"""What ran: a row of `queen.pipeline_runs` for every run, from its start to its end."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from time import monotonic
from typing import Any, Final

from pyspark import __version__ as spark_version

from queen.spark.database import Database
from queen.spark.pipelines.definition import Outcome, Period, Progress, without_passwords

PATIENCE: Final = 60.0
"""A run that gave no sign of life for so many seconds is dead."""
BEAT: Final = 1.0
OURS: Final = {"queen": version("queen-pg")}


class Runs:
    """The run records of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(
        self,
        pipeline: str,
        *,
        lake: str,
        master: str,
        period: Period,
        options: Mapping[str, str],
        read: Mapping[str, object] | None = None,
    ) -> Run:
        """Record that a pipeline runs; `read`: what it is going to read, told with the versions."""
        row = self._database.row(
            "pipelines/start_run",
            pipeline=pipeline,
            lake=lake,
            master=master,
            period_start=period.start.isoformat() if period.start else None,
            period_end=period.end.isoformat() if period.end else None,
            options=without_passwords(options),
            versions={**(read or {}), "spark": spark_version, "python": platform.python_version(), **OURS},
            patience=PATIENCE,
        )
        return Run(self._database, row["id"], pipeline, row["started_at"])


@dataclass
class Run(Progress):
    """One run. Its progress goes to the record at most once a second, and to whoever watches."""

    database: Database
    id: str
    pipeline: str
    began: datetime
    watcher: Progress | None = None
    _told: dict[str, Any] = field(default_factory=dict)
    _beat: float = 0.0

    def step(self, name: str, done: int, total: int | None) -> None:
        """Note how far a step is."""
        self._told = {"step": name, "done": done, "total": total}
        if self.watcher is not None:
            self.watcher.step(name, done, total)
        if monotonic() - self._beat >= BEAT or done == total:
            self.beat()

    def beat(self, rows: int | None = None) -> None:
        """Give a sign of life, and say how many rows are through so far."""
        self._beat = monotonic()
        self.database.rows("pipelines/note_progress", id=self.id, progress=self._told, rows=rows)

    def finish(self, outcome: Outcome, lag: int | None = None) -> None:
        """Record that it ended well."""
        self._end("done", outcome, None, lag)

    def fail(self, error: str) -> None:
        """Record that it did not."""
        self._end("failed", Outcome(0), error, None)

    def _end(self, state: str, outcome: Outcome, error: str | None, lag: int | None) -> None:
        self.database.rows(
            "pipelines/end_run",
            id=self.id,
            state=state,
            rows=outcome.rows,
            figures=dict(outcome.figures),
            error=error,
            lag=lag,
        )
