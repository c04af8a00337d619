"""When pipelines run by themselves: rows of `queen.pipeline_schedules`, taken by one worker each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from croniter import croniter

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.lake.places import Place
from queen.spark.pipelines.definition import PASSWORD
from queen.spark.pipelines.running import Job


@dataclass(frozen=True)
class Scheduled:
    """A pipeline and when it runs."""

    pipeline: str
    cron: str | None
    every: float | None
    lake: str
    master: str
    options: Mapping[str, str]
    next_at: datetime
    last_at: datetime | None
    due: bool

    def job(self, url: str) -> Job:
        """What to run."""
        return Job([self.pipeline], url, self.lake, self.master, options=self.options)


class Schedules:
    """The schedules of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, job: Job, *, cron: str | None = None, every: float | None = None) -> datetime:
        """Run a job at the times of a cron expression (UTC), or again and again after so many seconds."""
        if (cron is None) == (every is None):
            raise SparkError("INVALID_OPTION", "say when: either by a cron expression or by seconds between runs")
        if cron is not None and not croniter.is_valid(cron):
            raise SparkError("INVALID_OPTION", f"{cron!r} is no cron expression like '*/5 * * * *'")
        told = next((name for name, value in job.options.items() if PASSWORD.search(value)), None)
        if told is not None:
            raise SparkError(
                "INVALID_OPTION",
                f"option {told!r} has a password in it, and schedules are for all to see: give it as env:NAME, and set "
                "NAME in the environment of the worker",
            )
        row = self._database.row(
            "pipelines/set_schedule",
            pipeline=job.names[0],
            cron=cron,
            every=every,
            lake=Place.of(job.lake).address,
            master=job.master,
            options=dict(job.options),
            next_at=following(cron).isoformat() if cron else None,
        )
        found: datetime = row["next_at"]
        return found

    def remove(self, pipeline: str) -> bool:
        """Forget a schedule; tells whether there was one."""
        return bool(self._database.rows("pipelines/remove_schedule", pipeline=pipeline))

    def list(self) -> list[Scheduled]:
        """Every schedule, the next one due first."""
        rows: list[dict[str, Any]] = self._database.rows("pipelines/schedules")
        return [Scheduled(**{**row, "options": json.loads(row["options"])}) for row in rows]

    def take(self) -> Scheduled | None:
        """A schedule that is due and that nobody else takes."""
        for each in self.list():
            later = following(each.cron).isoformat() if each.cron else None
            ask = {"pipeline": each.pipeline, "next_at": each.next_at.isoformat(), "later": later}
            if each.due and self._database.rows("pipelines/take_schedule", **ask):
                return each
        return None


def following(cron: str) -> datetime:
    """The next time of a cron expression."""
    found: datetime = croniter(cron, datetime.now(UTC)).get_next(datetime)
    return found
