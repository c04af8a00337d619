"""Workflows started by the clock, in skipped time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from queen.durable import RegistrationError, Schedules, WorkflowContext, workflow
from queen.durable.model import InstanceQuery
from queen.durable.schedules import Plan, _due, next_time
from queen.durable.testing import WorkflowEnvironment, eventually


@workflow
async def report(ctx: WorkflowContext, subject: str) -> str:
    return f"{subject} at {ctx.now():%Y-%m-%dT%H:%M}"


def plan(**changes: object) -> Plan:
    return Plan(**{"id": "p", "cron": "30 2 * * *", "workflow": "report", **changes})  # type: ignore[arg-type]


def test_summer_time_is_the_zones_own() -> None:
    rome = plan(timezone="Europe/Rome", cron="0 9 * * *")
    winter = next_time(rome, datetime(2026, 1, 10, tzinfo=UTC))
    summer = next_time(rome, datetime(2026, 7, 10, tzinfo=UTC))
    assert (winter.hour, summer.hour) == (8, 7)


def test_missed_times_are_skipped_but_for_the_last_unless_caught_up() -> None:
    last = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
    now = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
    assert _due(plan(last=last), now) == datetime(2026, 1, 5, 2, 30, tzinfo=UTC)
    assert _due(plan(last=last, catch_up=True), now) == datetime(2026, 1, 2, 2, 30, tzinfo=UTC)


async def started(env: WorkflowEnvironment) -> list[str]:
    page = await env.provider.list_instances(InstanceQuery(name="report", status="Completed", limit=1000))
    return sorted(each.instance for each in page.instances)


async def test_each_time_starts_one_instance_named_after_it() -> None:
    async with WorkflowEnvironment(workflows=[report]) as env:
        schedules = Schedules(env.provider)
        await schedules.put("nightly", report, "sales", cron="0 3 * * *")
        for days in range(1, 4):
            await eventually(partial(_skipped_until, env, days))
        names = await started(env)
        times = [datetime.fromisoformat(each.partition("@")[2]) for each in names]
        assert [each.hour for each in times] == [3, 3, 3]
        assert times[1] - times[0] == times[2] - times[1] == timedelta(days=1)
        listed = await schedules.list()
        assert [each.instance for each in listed] == ["schedule:nightly"]
        assert '"cron":"0 3 * * *"' in (listed[0].custom_status or "")
        assert listed[0].current_execution_id == 4


async def _skipped_until(env: WorkflowEnvironment, count: int) -> bool:
    await env.skip_to_next()
    return await _count_is(env, count)


async def _is_waiting(env: WorkflowEnvironment) -> bool:
    return env.worker.is_idle and await env.provider.next_due_ms() is not None


async def _count_is(env: WorkflowEnvironment, count: int) -> bool:
    return len(await started(env)) == count


async def test_a_schedule_can_be_changed_run_and_removed() -> None:
    async with WorkflowEnvironment(workflows=[report]) as env:
        schedules = Schedules(env.provider)
        await schedules.put("s", report, "a", cron="0 3 * * *")
        await eventually(lambda: _is_waiting(env))
        await schedules.run_now("s")
        await eventually(lambda: _count_is(env, 1))
        assert (await started(env))[0].startswith("s@run-")
        await schedules.put("s", report, "b", cron="15 4 * * *")
        await eventually(lambda: _status_has(schedules, "15 4 * * *"))
        await schedules.remove("s")
        await eventually(lambda: _is_gone(schedules))


async def _status_has(schedules: Schedules, text: str) -> bool:
    return any(text in (each.custom_status or "") for each in await schedules.list())


async def _is_gone(schedules: Schedules) -> bool:
    return not await schedules.list()


async def test_nonsense_is_refused() -> None:
    async with WorkflowEnvironment(workflows=[report]) as env:
        schedules = Schedules(env.provider)
        with pytest.raises(RegistrationError, match="cron must be an expression of five fields, got 'often'"):
            await schedules.put("s", report, "x", cron="often")
        with pytest.raises(RegistrationError, match="timezone must be a name like Europe/Rome, got 'Mars'"):
            await schedules.put("s", report, "x", cron="* * * * *", timezone="Mars")
