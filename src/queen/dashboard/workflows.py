"""Workflows by state and attribute, the timeline of one, what can be done about it; and schedules."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, get_args

import msgspec

from queen import errors
from queen.dashboard.acts import Done, Undo, act, ask
from queen.dashboard.frame import Visit, page
from queen.dashboard.queues import host_of
from queen.dashboard.words import fine_span, url
from queen.durable.admin import WorkflowAdmin, WorkflowDetail, WorkflowSummary
from queen.durable.codec import load
from queen.durable.errors import DurableError
from queen.durable.model import ExecutionStatus, InstanceQuery
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.provider import PostgresProvider
from queen.durable.schedules import PREFIX, Schedules
from queen.durable.timeline import Span
from queen.server.wire import Wire

PAGE: Final = 50
PARKED: Final = 10
STATUSES: Final[tuple[ExecutionStatus, ...]] = get_args(ExecutionStatus)
T = TypeVar("T")


class Parked(Wire, kw_only=True):
    """An instance that waits for people."""

    id: str
    name: str
    reason: str | None
    since_ms: int


class WorkflowList(Wire, kw_only=True):
    """Instances that match, newest first."""

    workflows: list[WorkflowSummary]
    parked: list[Parked]
    status: str | None
    name: str | None
    attribute: str | None
    prefix: str | None
    statuses: list[str]
    next_cursor: str | None
    host: str


class Bar(Wire, kw_only=True):
    """A step in the picture: where it begins and how wide it is, of 1000."""

    x: float
    width: float
    kind: str
    label: str
    words: str
    event_id: int
    detail: str | None


class WorkflowPage(Wire, kw_only=True):
    """One instance."""

    detail: WorkflowDetail
    input: str
    bars: list[Bar]
    total_seconds: float
    axis: list[tuple[float, str]]
    ended: bool


class ScheduleRow(Wire, kw_only=True):
    """A schedule."""

    id: str
    cron: str
    workflow: str
    paused: bool
    next_at: datetime | None
    last_at: datetime | None


class ScheduleList(Wire, kw_only=True):
    """Every schedule."""

    schedules: list[ScheduleRow]


class WorkflowProblem(errors.RequestError):
    """What the workflow store says against it."""

    code = "WORKFLOW_REFUSED"
    status = 409


def _admin(visit: Visit) -> WorkflowAdmin:
    return WorkflowAdmin(PostgresProvider.over(visit.request.engine.database))


def _schedules(visit: Visit) -> Schedules:
    return Schedules(PostgresProvider.over(visit.request.engine.database))


async def _told(work: Awaitable[T]) -> T:
    """The result, or an error that a page can show."""
    try:
        return await work
    except errors.QueenError:
        raise
    except (ProviderError, DurableError) as error:
        if isinstance(error.__cause__, errors.QueenError):
            raise error.__cause__ from None
        raise WorkflowProblem(str(error)) from error


def _attributes(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    name, found, value = given.partition("=")
    if not (found and name):
        raise errors.InvalidRequest("attribute", "attribute must look like NAME=VALUE")
    return {name: load(value)}


@page("workflows.html", "Workflows", wide=True)
async def workflows(visit: Visit) -> WorkflowList:
    """Workflows, newest first; those that are parked above all."""
    status = next((each for each in STATUSES if each == visit.text("status")), None)
    cursor = visit.text("cursor")
    if cursor is not None and not re.fullmatch(r"\d{1,18}", cursor):
        raise errors.InvalidRequest("cursor", "cursor must be the one of a page before")
    query = InstanceQuery(
        name=visit.text("name"),
        status=status,
        id_prefix=visit.text("prefix"),
        attributes=_attributes(visit.text("attribute")),
        limit=PAGE,
        cursor=cursor,
    )
    found = await _told(_admin(visit).list(query))
    parked = await visit.looker.fetch("parked", PARKED)
    return WorkflowList(
        workflows=[each for each in found.workflows if not each.id.startswith(PREFIX)],
        parked=[
            Parked(id=row["instance"], name=row["name"], reason=row["output"], since_ms=row["updated_at"])
            for row in parked
        ],
        status=status,
        name=visit.text("name"),
        attribute=visit.text("attribute"),
        prefix=visit.text("prefix"),
        statuses=[each for each in STATUSES if each != "ContinuedAsNew"],
        next_cursor=found.next_cursor,
        host=host_of(visit),
    )


@page("workflow.html", "Workflows", wide=True)
async def workflow(visit: Visit) -> WorkflowPage:
    """One workflow: its steps over time, inputs, outputs and errors."""
    number = visit.need("id")
    detail = await _told(_admin(visit).show(number))
    history = await _told(_admin(visit).history(number))
    first: dict[str, Any] = msgspec.json.decode(history.events[0]) if history.events else {}
    now = datetime.now(UTC).timestamp() * 1000
    ended = detail.workflow.status in ("Completed", "Failed", "Cancelled")
    start = min([span.started_ms for span in detail.timeline], default=detail.workflow.created_at_ms)
    end = max([span.ended_ms or now for span in detail.timeline] + ([] if ended else [now]), default=now)
    total = max((end - start) / 1000, 0.001)
    return WorkflowPage(
        detail=detail,
        input=_input(first),
        bars=[_bar(span, start, total, end) for span in detail.timeline[:200]],
        total_seconds=total,
        axis=[(place * 1000, fine_span(total * place)) for place in (0.0, 0.25, 0.5, 0.75, 1.0)],
        ended=ended,
    )


def _input(event: dict[str, Any]) -> str:
    found = event.get("input")
    if found is None and isinstance(event.get("kind"), dict):
        found = event["kind"].get("input")
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


_KINDS: Final = {"open": "wait", "done": "done", "failed": "failed", "dropped": "retry"}


def _bar(span: Span, start: float, total: float, end: float) -> Bar:
    until = span.ended_ms or end
    seconds = max((until - span.started_ms) / 1000, 0.0)
    x = min(max((span.started_ms - start) / 1000 / total, 0.0), 0.997) * 1000
    kind = "mark" if span.kind == "mark" else "work" if span.outcome == "open" and span.kind == "activity" else ""
    return Bar(
        x=round(x, 1),
        width=round(min(max(seconds / total * 1000, 3.0), 1000 - x), 1),
        kind=kind or _KINDS[span.outcome],
        label=span.label,
        words=f"{span.kind} {span.outcome} {fine_span(seconds)}",
        event_id=span.event_id,
        detail=span.detail,
    )


@ask("workflow", "ask_workflow.html")
async def ask_workflow(visit: Visit) -> dict[str, Any]:
    """What to do with a workflow."""
    visit.require("read")
    what, number = visit.need("what"), visit.need("id")
    if what not in ("raise", "cancel", "retry", "fork"):
        raise errors.InvalidRequest("what", "what must be raise, cancel, retry or fork")
    detail = await _told(_admin(visit).show(number))
    return {"what": what, "detail": detail, "children": len(detail.tree) - 1}


@act("workflow-raise")
async def raise_event(visit: Visit) -> Done:
    """Raise an event in a workflow."""
    number, name = visit.need("id"), visit.need("name").strip()
    if not name:
        raise errors.InvalidRequest("name", "name must be given")
    try:
        data = msgspec.json.decode(visit.text("data") or "null")
    except msgspec.DecodeError as error:
        raise errors.InvalidRequest("data", f"data is not JSON: {error}") from None
    await _told(_admin(visit).raise_event(number, name, data))
    return _done(f"Raised {name} in {number}.", number)


@act("workflow-cancel")
async def cancel(visit: Visit) -> Done:
    """Ask a workflow to end."""
    number = visit.need("id")
    reason = visit.text("reason") or f"cancelled by {visit.identity.subject or 'an operator'}"
    await _told(_admin(visit).cancel(number, reason, force=visit.text("force") == "true"))
    return _done(f"{number} was asked to end, and its children with it.", number)


@act("workflow-retry")
async def retry(visit: Visit) -> Done:
    """Try a parked, failed or cancelled workflow again."""
    number = visit.need("id")
    await _told(_admin(visit).retry(number))
    return _done(f"{number} is tried again.", number)


@act("workflow-fork")
async def fork(visit: Visit) -> Done:
    """Start another workflow that goes on from a step of this one."""
    number = visit.need("id")
    step = visit.number("step") if visit.text("step") else None
    begun = await _told(_admin(visit).fork(number, visit.text("new") or None, from_step=step))
    return Done(f"{begun.id} goes on from there.", None, number, page=url("workflow", id=begun.id))


def _done(text: str, number: str) -> Done:
    return Done(text, None, number, page=url("workflow", id=number))


@page("schedules.html", "Schedules", wide=True)
async def schedules(visit: Visit) -> ScheduleList:
    """Every schedule with its next and last run."""
    found = await _told(_schedules(visit).list())
    return ScheduleList(schedules=[_schedule(each) for each in found])


def _schedule(each: Any) -> ScheduleRow:
    told = load(each.custom_status) or {}
    return ScheduleRow(
        id=each.instance.removeprefix(PREFIX),
        cron=str(told.get("cron", "")),
        workflow=str(told.get("workflow", "")),
        paused=bool(told.get("paused")),
        next_at=_moment(told.get("next")),
        last_at=_moment(told.get("last")),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@act("schedule")
async def schedule(visit: Visit) -> Done:
    """Run a schedule now, pause or resume it."""
    number, what = visit.need("id"), visit.need("what")
    calls = {"run": _schedules(visit).run_now, "pause": _schedules(visit).pause, "resume": _schedules(visit).resume}
    if what not in calls:
        raise errors.InvalidRequest("what", "what must be run, pause or resume")
    await _told(calls[what](number))
    said = {"run": "runs now, beside its times", "pause": "is paused", "resume": "goes on with its next time"}[what]
    back = {"pause": "resume", "resume": "pause"}.get(what)
    undo = Undo("schedule", {"id": number, "what": back}) if back else None
    return Done(f"{number} {said}.", None, number, {"what": what}, undo)
