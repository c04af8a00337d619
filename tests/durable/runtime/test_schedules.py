"""Workflows started by the clock, in skipped time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from queen.durable import (
    Provider,
    RegistrationError,
    Schedules,
    Worker,
    WorkflowContext,
    WorkflowNotFound,
    workflow,
)
from queen.durable.model import InstanceQuery
from queen.durable.schedules import Plan, made_good, next_time
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
    first, latest = datetime(2026, 1, 2, 2, 30, tzinfo=UTC), datetime(2026, 1, 5, 2, 30, tzinfo=UTC)
    assert next_time(plan(last=last), last) == first
    assert made_good(plan(last=last), first, now) == (latest, latest)
    assert made_good(plan(last=last, catch_up="all"), first, now) == (first, first)
    assert made_good(plan(last=last, catch_up="none"), first, now) == (None, latest)
    assert made_good(plan(last=last, catch_up="none"), first, latest) == (latest, latest), "this one is in time"


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
        assert listed[0].current_execution_id == 5


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


@pytest.mark.parametrize("pause", [True, False], ids=["slowly", "at once"])
async def test_a_schedule_removed_and_put_again_runs(provider: Provider, pause: bool) -> None:
    schedules = Schedules(provider)
    await schedules.put("s", report, "a", cron="0 3 1 1 *")
    async with Worker(provider, workflows=[report]):
        await eventually(lambda: _status_has(schedules, "0 3 1 1 *"))
        await schedules.remove("s")
        if pause:
            await eventually(lambda: _is_gone(schedules))
        await schedules.put("s", report, "b", cron="* * * * *")
        await eventually(lambda: _status_has(schedules, '"cron":"* * * * *"'))
        await schedules.run_now("s")
        await eventually(lambda: _ran(provider, "b at"))


async def test_the_last_of_two_quick_puts_counts(provider: Provider) -> None:
    schedules = Schedules(provider)
    await schedules.put("s", report, "a", cron="0 3 1 1 *")
    await schedules.put("s", report, "b", cron="15 4 1 1 *")
    async with Worker(provider, workflows=[report]):
        await eventually(lambda: _status_has(schedules, "15 4 1 1 *"))
        await schedules.run_now("s")
        await eventually(lambda: _ran(provider, "b at"))


async def test_the_last_of_put_and_remove_counts(provider: Provider) -> None:
    schedules = Schedules(provider)
    await schedules.put("gone", report, "a", cron="0 3 1 1 *")
    await schedules.put("gone", report, "b", cron="0 3 1 1 *")
    await schedules.remove("gone")
    async with Worker(provider, workflows=[report]) as worker:
        await eventually(lambda: worker.counters.orch_failures == 1)
        assert not await schedules.list()


async def _ran(provider: Provider, beginning: str) -> bool:
    page = await provider.list_instances(InstanceQuery(name="report", status="Completed"))
    return any((each.output or "").startswith(f'"{beginning}') for each in page.instances)


async def test_a_paused_schedule_starts_nothing_until_it_is_resumed() -> None:
    async with WorkflowEnvironment(workflows=[report]) as env:
        schedules = Schedules(env.provider)
        await schedules.put("s", report, "a", cron="0 3 * * *", catch_up="all")
        await eventually(lambda: _is_waiting(env))
        await schedules.pause("s")
        await eventually(lambda: _status_has(schedules, '"paused":true'))
        await env.skip(timedelta(days=3))
        await eventually(lambda: env.worker.is_idle)
        assert not await started(env)
        await schedules.run_now("s")
        await eventually(lambda: _count_is(env, 1))
        await schedules.resume("s")
        await eventually(lambda: _status_has(schedules, '"paused":false'))
        await eventually(partial(_skipped_until, env, 2))
        times = [each.partition("@")[2] for each in await started(env)]
        assert sum(each.startswith("run-") for each in times) == 1
        with pytest.raises(WorkflowNotFound, match="there is no schedule 'other'"):
            await schedules.pause("other")


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
