"""Pipelines: which there are, what ran, and what it found."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Raw

from queen import errors
from queen.engine.pipelines import Known, Pipelines, Run
from queen.server.listing import fill, name_of, paging, window
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Response, Wire, answer, millis, raw

PAGE: Final = 50
RESULTS: Final = 100


class RunEntry(Wire):
    """One run of a pipeline."""

    id: UUID
    pipeline: str
    state: str
    lake: str
    master: str
    period_start: str | None
    period_end: str | None
    options: Raw
    versions: Raw
    rows: int
    lag: int | None
    figures: Raw
    progress: Raw
    error: str | None
    started_at: str
    finished_at: str | None
    heartbeat_at: str
    duration_ms: int | None


class PipelineEntry(Wire):
    """A pipeline with its newest run, and when it runs next if it is scheduled."""

    name: str
    last_run: RunEntry | None
    cron: str | None
    every_seconds: float | None
    next_at: str | None


class PipelineList(Wire):
    """Pipelines by name."""

    pipelines: list[PipelineEntry]
    next_cursor: str | None


class RunList(Wire):
    """Runs, newest first."""

    runs: list[RunEntry]
    next_cursor: str | None


class ResultEntry(Wire):
    """Something a run found."""

    kind: str
    key: str
    value: Raw


class ResultList(Wire):
    """What a run found, by kind and key."""

    run: RunEntry
    results: list[ResultEntry]
    next_cursor: str | None


async def pipelines(request: Request) -> Response:
    """Every pipeline that has run or is scheduled."""
    page = await _pipelines(request).known(window(request, PAGE))
    return answer(PipelineList([_say_known(each) for each in page.items], page.next_cursor))


async def runs(request: Request) -> Response:
    """The runs of a pipeline, newest first."""
    (name,) = request.params
    page = await _pipelines(request).runs(name_of("name", name), window(request, PAGE))
    return answer(RunList([_say(each) for each in page.items], page.next_cursor))


async def results(request: Request) -> Response:
    """What a pipeline found in its newest run that ended well, or in the run named."""
    (name,) = request.params
    asked, kind = request.text("run"), request.text("kind")
    try:
        run = UUID(asked) if asked else None
    except ValueError:
        raise errors.InvalidRequest("run", "run must be a UUID") from None
    shown, page = await _pipelines(request).results(name_of("name", name), window(request, RESULTS), run=run, kind=kind)
    found = [ResultEntry(each.kind, each.key, raw(each.value)) for each in page.items]
    return answer(ResultList(_say(shown), found, page.next_cursor))


def _pipelines(request: Request) -> Pipelines:
    return Pipelines(request.engine.database)


def _say(run: Run) -> RunEntry:
    took = (run.finished_at - run.started_at).total_seconds() if run.finished_at else None
    texts = {name: raw(getattr(run, name)) for name in ("options", "versions", "figures", "progress")}
    return fill(RunEntry, run, duration_ms=None if took is None else round(took * 1000), **texts)


def _say_known(known: Known) -> PipelineEntry:
    return PipelineEntry(
        known.name,
        _say(known.last) if known.last else None,
        known.cron,
        known.every,
        millis(known.next_at) if known.next_at else None,
    )


ROUTES = [
    Route("GET", "/api/v1/pipelines", pipelines, role="read", answer=PipelineList, query=paging(PAGE)),
    Route("GET", "/api/v1/pipelines/:name/runs", runs, role="read", answer=RunList, query=paging(PAGE), others=(404,)),
    Route(
        "GET",
        "/api/v1/pipelines/:name/results",
        results,
        role="read",
        answer=ResultList,
        query=(
            Query("kind", description="Only results of this kind."),
            Query("run", description="Of this run; the newest that ended well unless given."),
            *paging(RESULTS),
        ),
        others=(400, 404),
    ),
]
