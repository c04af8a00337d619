"""The test kit: skipped time and named crash points."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from queen.durable import Provider, Worker, WorkerSettings, WorkflowClient, WorkflowContext, activity, workflow
from queen.durable.testing import CrashPoint, CrashPoints, WorkflowEnvironment, eventually


@activity
async def mail(address: str) -> str:
    return f"mailed {address}"


@workflow
async def remind(ctx: WorkflowContext, address: str) -> list[str]:
    begun = ctx.now()
    sent = []
    for _ in range(12):
        await ctx.sleep(timedelta(days=30))
        sent.append(await ctx.activity(mail, address))
    assert ctx.now() - begun >= timedelta(days=360)
    return sent


async def test_a_year_passes_at_once() -> None:
    begun = time.monotonic()
    async with WorkflowEnvironment(workflows=[remind], activities=[mail]) as env:
        handle = await env.client.start(remind, "a@b.c")
        assert await env.result(handle) == ["mailed a@b.c"] * 12
    assert time.monotonic() - begun < 10


async def test_time_can_be_moved_by_hand() -> None:
    @workflow
    async def waits(ctx: WorkflowContext) -> str:
        await ctx.sleep(timedelta(hours=1))
        return "an hour later"

    async with WorkflowEnvironment(workflows=[waits]) as env:
        handle = await env.client.start(waits)
        await eventually(lambda: _has_timer(env.provider, handle.id))
        await env.skip(timedelta(minutes=59))
        assert (await handle.state()).status == "Running"
        await env.skip(timedelta(minutes=2))
        assert await handle.result() == "an hour later"


async def _has_timer(provider: Provider, instance: str) -> bool:
    return len(await provider.read(instance)) == 2


POINTS: list[CrashPoint] = [
    "turn.before",
    "turn.before_ack",
    "turn.after_ack",
    "activity.before",
    "activity.before_ack",
    "activity.after_ack",
]


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_at_any_point_loses_nothing(provider: Provider, point: CrashPoint) -> None:
    runs: list[str] = []

    @activity
    async def note(text: str) -> str:
        runs.append(text)
        return text

    @workflow
    async def two(ctx: WorkflowContext) -> list[str]:
        return [await ctx.activity(note, "one"), await ctx.activity(note, "two")]

    reached: list[int] = []

    def once() -> None:
        reached.append(1)
        if len(reached) == 2:
            raise RuntimeError("the slot ends here, as if the process had")

    settings = WorkerSettings(orchestrator_lock_timeout_ms=300, worker_lock_timeout_ms=300)
    crash = CrashPoints({point: once})
    async with Worker(provider, workflows=[two], activities=[note], settings=settings, crash_points=crash):
        handle = await WorkflowClient(provider).start(two)
        assert await handle.result() == ["one", "two"]
    assert len(reached) >= 2
    assert set(runs) == {"one", "two"}
    history = await provider.read(handle.id)
    assert [type(each).__name__ for each in history] == [
        "OrchestrationStarted",
        "ActivityScheduled",
        "ActivityCompleted",
        "ActivityScheduled",
        "ActivityCompleted",
        "OrchestrationCompleted",
    ]
