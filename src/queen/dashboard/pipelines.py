"""Pipelines: Spark runs with their progress, what they found as plots and tables, the lakes, and what runs next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from queen.dashboard import charts
from queen.dashboard.charts import Series
from queen.dashboard.frame import Visit, page
from queen.engine.pipelines import Known, Pipelines, Run
from queen.engine.reading import Window
from queen.server.wire import Wire

PAGE: Final = 100
RUNS: Final = 20
RESULTS: Final = 200
COLUMNS: Final = 8
GRAINS: Final = {"hour": (timedelta(hours=1), 168), "minute": (timedelta(minutes=1), 180)}
FEW: Final = 6
# What a kind of result is about: its bars are drawn by it, the longest first.
_MEASURES: Final = (
    "share", "gini", "count", "latency_p95_ms", "total_ms", "held_ms", "wait_p95_ms", "messages_in", "messages",
)  # fmt: skip
_HEATS: Final = 5


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
    lakes: list[Lake]


class Lake(Wire, kw_only=True):
    """A lake this database is archived to; its size is that after its newest archive run."""

    id: str
    place: str
    updated_at: datetime
    until: datetime | None
    missing: int
    files: int | None
    bytes: int | None
    kept: int | None


class Column(Wire, kw_only=True):
    """A column of results, and how its values are said."""

    name: str
    words: str
    unit: Literal["", "ms", "bytes", "share", "gini"]


class Map(Wire, kw_only=True):
    """How much the largest partitions of a queue got over time; `heats` goes from 0 (nothing) to 5."""

    queue: str
    partitions: list[str]
    heats: list[list[int]]
    most: int
    hours: float


class Kind(Wire, kw_only=True):
    """Results of one kind, as a table: `bar` is the column drawn as a bar, `sparks` a line for each row."""

    name: str
    count: int
    columns: list[Column]
    rows: list[list[Any]]
    bar: int | None
    most: float
    sparks: list[str]
    maps: list[Map]


class PipelinePage(Wire, kw_only=True):
    """One pipeline: its runs, and what the newest good one found."""

    name: str
    runs: list[RunRow]
    shown: UUID | None
    kinds: list[Kind]
    grain: str
    series: Series | None


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
    lakes = await visit.looker.fetch("lakes")
    return PipelineList(
        pipelines=[_pipeline(each) for each in found.items],
        lakes=[Lake(**{name: row[name] for name in Lake.__struct_fields__}) for row in lakes],
    )


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
    grain, series = await _series(visit) if name == "rollups" else ("hour", None)
    return PipelinePage(
        name=name,
        runs=[_run(run) for run in runs],
        shown=good.id if good else None,
        kinds=kinds,
        grain=grain,
        series=series,
    )


async def _series(visit: Visit) -> tuple[str, Series | None]:
    """What was summed up over all queues, by the hour or, where those are few, by the minute; nothing happened: 0."""
    for grain, (length, most) in GRAINS.items():
        rows = await visit.looker.fetch("rollups", grain, most, length)
        if len(rows) >= FEW or (rows and grain == "minute"):
            break
    else:
        return "hour", None
    found = {row["bucket"]: row for row in rows}
    count = int((rows[-1]["bucket"] - rows[0]["bucket"]) / length) + 1
    times = [rows[0]["bucket"] + length * place for place in range(count)]
    waits = [found[time]["wait_ms"] if time in found else None for time in times]
    return grain, Series(
        at=[int(time.astimezone(UTC).timestamp()) for time in times],
        pushed=[found[time]["pushed"] if time in found else 0 for time in times],
        done=[found[time]["acked"] if time in found else 0 for time in times],
        failed=[found[time]["failed"] if time in found else 0 for time in times],
        waiting=[found[time]["waiting"] if time in found else None for time in times],
        oldest=[None if wait is None else round(wait / 1000, 2) for wait in waits],
    )


def _kind(name: str, amount: int, rows: list[dict[str, Any]]) -> Kind:
    first = rows[0] if rows else {}
    names = [key for key in first if not isinstance(first[key], dict | list)][:COLUMNS]
    measure = next((each for each in _MEASURES if each in names), None)
    if measure is not None:
        rows = sorted(rows, key=lambda row: -float(row.get(measure) or 0.0))
    numbers = [float(row.get(measure) or 0.0) for row in rows] if measure else []
    return Kind(
        name=name.replace("_", " "),
        count=amount,
        columns=[_column(each) for each in names],
        rows=[[row.get(each) for each in names] for row in rows],
        bar=names.index(measure) if measure else None,
        most=1.0 if measure in ("share", "gini") else max(numbers, default=0.0) or 1.0,
        sparks=[str(charts.line(row["slots"])) for row in rows] if isinstance(first.get("slots"), list) else [],
        maps=[_map(row) for row in rows] if {"partitions", "counts"} <= set(first) else [],
    )


def _column(name: str) -> Column:
    words = name.removesuffix("_ms").replace("_", " ")
    unit: Any = "ms" if name.endswith("_ms") else "bytes" if name.startswith("bytes") else ""
    if name in ("share", "gini"):
        unit = name
    return Column(name=name, words=words, unit=unit)


def _map(row: dict[str, Any]) -> Map:
    most = max((count for counts in row["counts"] for count in counts), default=0)
    heats = [[-(-count * _HEATS // most) if most else 0 for count in counts] for counts in row["counts"]]
    slots = len(row["counts"][0]) if row["counts"] else 0
    hours = slots * float(row.get("slot_seconds", 0.0)) / 3600
    return Map(queue=row["queue"], partitions=row["partitions"], heats=heats, most=most, hours=hours)
