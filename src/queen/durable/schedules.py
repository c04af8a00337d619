"""Schedules: workflows started by the clock.

A schedule is itself a workflow: it sleeps until the next time of its cron expression, starts an instance
named after that time, and begins anew. Nothing else has to run, a crash loses no time and starts nothing
twice, and it is seen and cancelled like any other workflow.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from croniter import croniter

from queen.durable.definition import Workflow, workflow
from queen.durable.errors import RegistrationError, WorkflowNotFound, WorkflowTimedOut
from queen.durable.instances import Instances
from queen.durable.model import InstanceInfo, InstanceQuery
from queen.durable.provider import Provider
from queen.durable.replay.promise import Winner
from queen.durable.workflow_context import WorkflowContext

__all__ = ["SCHEDULE_WORKFLOW", "Plan", "Schedules", "next_time"]

PREFIX = "schedule:"
_CONTROL = "control"
_PATIENCE_SECONDS = 2.0


CatchUp = Literal["last", "all", "none"]
LATE = timedelta(minutes=1)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule starts, and when.

    Of the times missed while no worker ran `catch_up` makes good the `last` one, `all`, or `none` that is more than
    a minute late. Times that pass while the schedule is `paused` are never made good.
    """

    id: str
    cron: str
    workflow: str
    arguments: Any = None
    timezone: str = "UTC"
    catch_up: CatchUp = "last"
    version: str | None = None
    paused: bool = False
    last: datetime | None = None


def next_time(plan: Plan, after: datetime) -> datetime:
    """The first moment of the plan later than `after`, in UTC; summer time is the zone's own."""
    local = after.astimezone(ZoneInfo(plan.timezone))
    found: datetime = croniter(plan.cron, local).get_next(datetime)
    return found.astimezone(UTC)


def latest_time(plan: Plan, now: datetime) -> datetime:
    """The last moment of the plan that is not later than `now`, in UTC."""
    local = (now + timedelta(seconds=1)).astimezone(ZoneInfo(plan.timezone))
    times = croniter(plan.cron, local)
    found: datetime = times.get_prev(datetime)
    while found > now:
        found = times.get_prev(datetime)
    return found.astimezone(UTC)


def made_good(plan: Plan, due: datetime, now: datetime) -> tuple[datetime | None, datetime]:
    """Which time to start an instance for at `now`, when `due` was the next, and up to when all is settled then."""
    if plan.catch_up == "all":
        return due, due
    latest = max(due, latest_time(plan, now))
    if plan.catch_up == "none" and now - latest > LATE:
        return None, latest
    return latest, latest


@workflow(name="queen.schedule")
async def SCHEDULE_WORKFLOW(ctx: WorkflowContext, plan: Plan) -> None:  # noqa: N802
    """Wait for the next time, start an instance, begin anew; a message changes the plan, or runs it now."""
    due = next_time(plan, plan.last or ctx.now())
    told = {"next": None if plan.paused else due, "last": plan.last, "cron": plan.cron, "workflow": plan.workflow}
    ctx.status = {**told, "paused": plan.paused}
    control = ctx.receive(_CONTROL)
    winner = Winner(0, await control) if plan.paused else await ctx.race(control, ctx.sleep_until(due))
    if winner.index == 1:
        at, settled = made_good(plan, due, ctx.now())
        if at is not None:
            ctx.start_by_name(plan.workflow, plan.arguments, id=f"{plan.id}@{at.isoformat()}", version=plan.version)
        ctx.continue_as_new(msgspec.structs.replace(plan, last=settled))
    match winner.value:
        case "run":
            ctx.start_by_name(plan.workflow, plan.arguments, id=f"{plan.id}@run-{ctx.uuid()}", version=plan.version)
            ctx.continue_as_new(plan)
        case "pause":
            ctx.continue_as_new(msgspec.structs.replace(plan, paused=True))
        case "resume":
            ctx.continue_as_new(
                msgspec.structs.replace(plan, paused=False, last=ctx.now() if plan.paused else plan.last)
            )
        case changed:
            ctx.continue_as_new(msgspec.convert(changed, Plan))


class Schedules:
    """The schedules of a store."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._instances = Instances(provider)

    async def put(
        self,
        id: str,  # noqa: A002
        called: Workflow[Any, *tuple[Any, ...]],
        *arguments: object,
        cron: str,
        timezone: str = "UTC",
        catch_up: CatchUp = "last",
        version: str | None = None,
    ) -> Plan:
        """Make a schedule, or change the one of this id."""
        plan = Plan(
            id=id,
            cron=_checked_cron(cron),
            workflow=called.name,
            arguments=msgspec.json.decode(called.encode(arguments)),
            timezone=_checked_zone(timezone),
            catch_up=_checked_catch_up(catch_up),
            version=version or called.pinned_version,
        )
        text = msgspec.json.encode(plan).decode()
        # The start counts when the schedule does not run, the message when it does: whoever puts last is right.
        await self._instances.start(PREFIX + id, SCHEDULE_WORKFLOW.name, text, reuse="ended")
        await self._instances.enqueue_event(PREFIX + id, _CONTROL, text)
        return plan

    async def run_now(self, id: str) -> None:  # noqa: A002
        """Start an instance at once, beside the regular ones; `WorkflowNotFound` when there is no such schedule."""
        await self._tell(id, "run")

    async def pause(self, id: str) -> None:  # noqa: A002
        """Start nothing until `resume`; times that pass meanwhile are not made good."""
        await self._tell(id, "pause")

    async def resume(self, id: str) -> None:  # noqa: A002
        """Go on with the next time of a paused schedule."""
        await self._tell(id, "resume")

    async def remove(self, id: str) -> None:  # noqa: A002
        """End a schedule; what it has started goes on."""
        await self._instances.cancel(PREFIX + id, "schedule removed")

    async def _tell(self, id: str, what: str) -> None:  # noqa: A002
        try:
            state = await self._instances.wait_until_begun(PREFIX + id, _PATIENCE_SECONDS)
        except WorkflowTimedOut:
            state = None
        if state is None or state.ended:
            raise WorkflowNotFound(f"there is no schedule {id!r}, or no worker has begun it yet")
        await self._instances.enqueue_event(PREFIX + id, _CONTROL, msgspec.json.encode(what).decode())

    async def list(self) -> list[InstanceInfo]:
        """The running schedules; their custom status says when they are next due."""
        query = InstanceQuery(name=SCHEDULE_WORKFLOW.name, status="Running", limit=1000)
        return (await self._provider.list_instances(query)).instances


def _checked_cron(cron: str) -> str:
    if not croniter.is_valid(cron):
        raise RegistrationError(f"cron must be an expression of five fields, got {cron!r}")
    return cron


def _checked_catch_up(catch_up: CatchUp) -> CatchUp:
    if catch_up not in get_args(CatchUp):
        raise RegistrationError(f"catch_up must be one of {', '.join(get_args(CatchUp))}, got {catch_up!r}")
    return catch_up


def _checked_zone(timezone: str) -> str:
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise RegistrationError(f"timezone must be a name like Europe/Rome, got {timezone!r}") from error
    return timezone
