"""Pipelines: Spark runs with their progress, what they found, and when they run next."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from queen.dashboard.frame import Visit, page
from queen.engine.pipelines import Known, Pipelines, Run
from queen.engine.reading import Window
from queen.server.wire import Wire

PAGE: Final = 100
RUNS: Final = 20
RESULTS: Final = 50
COLUMNS: Final = 8


class RunRow(Wire, kw_only=True):
    """A run in a list."""

    id: UUID
    pipeline: str
    state: str
    rows: int
    lag: int | None
    seconds: float | None
    started_at: datetime
    finished_at: datetime | None
    heartbeat_at: datetime
    lake: str
    error: str | None
    figures: dict[str, Any]
    progress: dict[str, Any]


class PipelineRow(Wire, kw_only=True):
    """A pipeline."""

    name: str
    last: RunRow | None
    schedule: str | None
    next_at: datetime | None


class PipelineList(Wire, kw_only=True):
    """Every pipeline."""

    pipelines: list[PipelineRow]


class Kind(Wire, kw_only=True):
    """Results of one kind, as a table."""

    name: str
    count: int
    columns: list[str]
    rows: list[list[Any]]
    most: float


class PipelinePage(Wire, kw_only=True):
    """One pipeline: its runs, and what the newest good one found."""

    name: str
    runs: list[RunRow]
    shown: UUID | None
    kinds: list[Kind]


def _run(run: Run) -> RunRow:
    ended = run.finished_at
    return RunRow(
        seconds=None if ended is None else (ended - run.started_at).total_seconds(),
        figures=_object(run.figures),
        progress=_object(run.progress),
        **{
            name: getattr(run, name)
            for name in ("id", "pipeline", "state", "rows", "lag", "started_at", "finished_at", "heartbeat_at", "lake",
                         "error")
        },
    )  # fmt: skip


def _object(text: str | None) -> dict[str, Any]:
    found = msgspec.json.decode(text or "{}")
    return found if isinstance(found, dict) else {}


@page("pipelines.html", "Pipelines", wide=True)
async def pipelines(visit: Visit) -> PipelineList:
    """Every pipeline with its newest run."""
    found = await Pipelines(visit.request.engine.database).known(Window(limit=PAGE))
    return PipelineList(pipelines=[_pipeline(each) for each in found.items])


def _pipeline(each: Known) -> PipelineRow:
    schedule = each.cron or (f"every {each.every:g} s" if each.every else None)
    return PipelineRow(
        name=each.name, last=_run(each.last) if each.last else None, schedule=schedule, next_at=each.next_at
    )


@page("pipeline.html", "Pipelines", wide=True)
async def pipeline(visit: Visit) -> PipelinePage:
    """One pipeline: its runs, and what the newest good one found."""
    reader, name = Pipelines(visit.request.engine.database), visit.need("name")
    runs = (await reader.runs(name, Window(limit=RUNS))).items
    chosen = visit.text("run")
    good = next(
        (run for run in runs if (str(run.id) == chosen if chosen else run.state not in ("running", "failed"))), None
    )
    kinds = []
    if good is not None:
        for kind, amount in (await reader.kinds(good.id)).items():
            _, results = await reader.results(name, Window(limit=RESULTS), run=good.id, kind=kind)
            kinds.append(_kind(kind, amount, [_object(each.value) for each in results.items]))
    return PipelinePage(name=name, runs=[_run(run) for run in runs], shown=good.id if good else None, kinds=kinds)


def _kind(name: str, amount: int, rows: list[dict[str, Any]]) -> Kind:
    columns = [key for key in (rows[0] if rows else {}) if not isinstance(rows[0][key], dict | list)][:COLUMNS]
    table = [[row.get(column) for column in columns] for row in rows]
    numbers = [value for row in table for value in row if isinstance(value, int | float)]
    return Kind(name=name, count=amount, columns=columns, rows=table, most=float(max(numbers, default=0.0)))
