"""Pipelines: what ran, what it found, and when it runs next. Running them is Spark's part."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.reading import Page, Reader, Window


class PipelineNotFound(errors.RequestError):
    """No pipeline of that name has run, or not the run asked for."""

    code = "PIPELINE_NOT_FOUND"
    status = 404


class Run(Struct, frozen=True, kw_only=True):
    """One run. `options`, `versions`, `figures` and `progress` are JSON text."""

    id: UUID
    pipeline: str
    state: str
    lake: str
    master: str
    period_start: datetime | None
    period_end: datetime | None
    options: str
    versions: str
    rows: int
    lag: int | None
    figures: str
    progress: str
    error: str | None
    started_at: datetime
    finished_at: datetime | None
    heartbeat_at: datetime


class Known(Struct, frozen=True, kw_only=True):
    """A pipeline with its newest run, and when it runs next if it is scheduled."""

    name: str
    last: Run | None
    cron: str | None
    every: float | None
    next_at: datetime | None


class Result(Struct, frozen=True, kw_only=True):
    """Something a run found. `value` is JSON text."""

    kind: str
    key: str
    value: str


class Pipelines:
    """The pipelines of a database."""

    def __init__(self, database: Database) -> None:
        self._reader = Reader(database)

    async def known(self, window: Window) -> Page[Known]:
        """Every pipeline that has run or is scheduled, by name."""
        (after,) = window.position(str)
        rows = await self._reader.fetch("pipelines", window.limit + window.offset + 1, after)
        rows = rows[window.offset :]
        found = [
            Known(
                name=row["name"],
                last=_run(row) if row["id"] is not None else None,
                **{name: row[name] for name in ("cron", "every", "next_at")},
            )
            for row in rows
        ]
        return window.page(found, [(row["name"],) for row in rows])

    async def runs(self, pipeline: str, window: Window) -> Page[Run]:
        """The runs of a pipeline, newest first."""
        at, last = window.position(datetime, UUID)
        rows = await self._reader.fetch("pipeline_runs", pipeline, window.limit + window.offset + 1, at, last)
        rows = rows[window.offset :]
        if not rows and window.cursor is None:
            raise PipelineNotFound(f"no pipeline {pipeline!r} has run here")
        return window.page([_run(row) for row in rows], [(row["started_at"], row["id"]) for row in rows])

    async def results(
        self, pipeline: str, window: Window, *, run: UUID | None = None, kind: str | None = None
    ) -> tuple[Run, Page[Result]]:
        """What a run found, the newest good one unless one is named, by kind and key; the cursor keeps to that run."""
        begun, *after = window.position(UUID, str, str)
        shown = await self._reader.first("pipeline_run", pipeline, run or begun)
        if shown is None:
            which = "has ended well here yet" if run is None else f"has a run {run}"
            raise PipelineNotFound(f"no pipeline {pipeline!r} {which}")
        rows = await self._reader.fetch("pipeline_results", shown["id"], kind, window.limit + window.offset + 1, *after)
        rows = rows[window.offset :]
        found = [Result(kind=row["kind"], key=row["key"], value=row["value"]) for row in rows]
        return _run(shown), window.page(found, [(shown["id"], row["kind"], row["key"]) for row in rows])

    async def kinds(self, run: UUID) -> dict[str, int]:
        """The kinds of results a run has, with how many there are of each."""
        return {row["kind"]: row["results"] for row in await self._reader.fetch("pipeline_kinds", run)}


def _run(row: Row) -> Run:
    return Run(**{name: row[name] for name in Run.__struct_fields__})
