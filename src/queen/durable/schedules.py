"""Schedules: workflows started by the clock.

A schedule is itself a workflow: it sleeps until the next time of its cron expression, starts an instance
named after that time, and begins anew. Nothing else has to run, a crash loses no time and starts nothing
twice, and it is seen and cancelled like any other workflow.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from croniter import croniter

from queen.durable.definition import Workflow, workflow
from queen.durable.errors import RegistrationError
from queen.durable.instances import Instances
from queen.durable.model import InstanceInfo, InstanceQuery
from queen.durable.provider import Provider
from queen.durable.workflow_context import WorkflowContext

__all__ = ["SCHEDULE_WORKFLOW", "Plan", "Schedules", "next_time"]

PREFIX = "schedule:"
_CONTROL = "control"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule starts, and when.

    Times missed while no worker ran are skipped but for the last one; with `catch_up` each is made good.
    """

    id: str
    cron: str
    workflow: str
    arguments: Any = None
    timezone: str = "UTC"
    catch_up: bool = False
    version: str | None = None
    last: datetime | None = None


def next_time(plan: Plan, after: datetime) -> datetime:
    """The first moment of the plan later than `after`, in UTC; summer time is the zone's own."""
    local = after.astimezone(ZoneInfo(plan.timezone))
    found: datetime = croniter(plan.cron, local).get_next(datetime)
    return found.astimezone(UTC)


def _due(plan: Plan, now: datetime) -> datetime:
    due = next_time(plan, plan.last or now)
    while not plan.catch_up and (later := next_time(plan, due)) <= now:
        due = later
    return due


@workflow(name="queen.schedule")
async def SCHEDULE_WORKFLOW(ctx: WorkflowContext, plan: Plan) -> None:  # noqa: N802
    """Wait for the next time, start an instance, begin anew; a message changes the plan or runs it now."""
    due = _due(plan, ctx.now())
    ctx.status = {"next": due, "last": plan.last, "cron": plan.cron, "workflow": plan.workflow}
    winner = await ctx.race(ctx.sleep_until(due), ctx.receive(_CONTROL))
    if winner.index == 0:
        ctx.start_by_name(plan.workflow, plan.arguments, id=f"{plan.id}@{due.isoformat()}", version=plan.version)
        ctx.continue_as_new(msgspec.structs.replace(plan, last=due))
    if winner.value == "run":
        ctx.start_by_name(plan.workflow, plan.arguments, id=f"{plan.id}@run-{ctx.uuid()}", version=plan.version)
        ctx.continue_as_new(plan)
    ctx.continue_as_new(msgspec.convert(winner.value, Plan))


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
        catch_up: bool = False,
        version: str | None = None,
    ) -> Plan:
        """Make a schedule, or change the one of this id."""
        plan = Plan(
            id=id,
            cron=_checked_cron(cron),
            workflow=called.name,
            arguments=msgspec.json.decode(called.encode(arguments)),
            timezone=_checked_zone(timezone),
            catch_up=catch_up,
            version=version or called.pinned_version,
        )
        info = await self._provider.get_instance_info(PREFIX + id)
        text = msgspec.json.encode(plan).decode()
        if info is None or info.status != "Running":
            await self._instances.start(PREFIX + id, SCHEDULE_WORKFLOW.name, text)
        else:
            await self._instances.enqueue_event(PREFIX + id, _CONTROL, text)
        return plan

    async def run_now(self, id: str) -> None:  # noqa: A002
        """Start an instance at once, beside the regular ones."""
        await self._instances.enqueue_event(PREFIX + id, _CONTROL, '"run"')

    async def remove(self, id: str) -> None:  # noqa: A002
        """End a schedule; what it has started goes on."""
        await self._instances.cancel(PREFIX + id, "schedule removed")

    async def list(self) -> list[InstanceInfo]:
        """The running schedules; their custom status says when they are next due."""
        query = InstanceQuery(name=SCHEDULE_WORKFLOW.name, status="Running", limit=1000)
        return (await self._provider.list_instances(query)).instances


def _checked_cron(cron: str) -> str:
    if not croniter.is_valid(cron):
        raise RegistrationError(f"cron must be an expression of five fields, got {cron!r}")
    return cron


def _checked_zone(timezone: str) -> str:
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise RegistrationError(f"timezone must be a name like Europe/Rome, got {timezone!r}") from error
    return timezone
