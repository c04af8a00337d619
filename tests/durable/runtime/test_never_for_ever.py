"""Nothing waits for ever, nothing runs in a circle: whatever the code of a user raises or shares."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from queen.durable import (
    ActivityFailed,
    ChildFailed,
    Provider,
    Worker,
    WorkerSettings,
    WorkflowCancelled,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    activity,
    workflow,
)
from queen.durable.model import InstanceQuery
from queen.durable.testing import eventually


@activity
async def double(number: int) -> int:
    return number * 2


@workflow
async def waits(ctx: WorkflowContext) -> str:
    return await ctx.event("go", str)


@workflow
async def adopts(ctx: WorkflowContext, child: str) -> str:
    try:
        return await ctx.child(waits, id=child)
    except ChildFailed as failed:
        return str(failed)


async def test_a_child_whose_id_is_taken_fails_at_its_parent(provider: Provider) -> None:
    async with Worker(provider, workflows=[waits, adopts]):
        client = WorkflowClient(provider)
        other = await client.start(waits, id="taken")
        await eventually(lambda: _is_known(provider, "taken"))
        parent = await client.start(adopts, "taken")
        assert await parent.result(10) == "an instance 'taken' already exists"
        await other.raise_event("go", "went")
        assert await other.result(10) == "went"
        late = await client.start(adopts, "taken")
        assert await late.result(10) == "an instance 'taken' already exists", "also when the other one has ended"


async def test_two_children_of_one_id_run_once(provider: Provider) -> None:
    @workflow
    async def twins(ctx: WorkflowContext) -> list[str]:
        both = await ctx.settle(ctx.child(waits, id="twin"), ctx.child(waits, id="twin"))
        return [str(each) for each in both]

    client = WorkflowClient(provider)
    parent = await client.start(twins)
    async with Worker(provider, workflows=[waits, twins]):
        await eventually(lambda: _is_known(provider, "twin"))
        await client.handle(waits, "twin").raise_event("go", "went")
        assert await parent.result(10) == ["went", "an instance 'twin' already exists"]


async def _is_known(provider: Provider, instance: str) -> bool:
    return await provider.get_instance_info(instance) is not None


async def test_a_timer_shared_by_two_races(provider: Provider) -> None:
    @workflow
    async def deadline(ctx: WorkflowContext) -> list[int]:
        timer = ctx.sleep(timedelta(milliseconds=300))
        first = await ctx.race(ctx.activity(double, 1), timer)
        second = await ctx.race(ctx.event("never"), timer)
        return [first.index, second.index]

    async with Worker(provider, workflows=[deadline], activities=[double]):
        assert await (await WorkflowClient(provider).start(deadline)).result(10) == [0, 1]


async def test_a_timer_shared_by_two_races_at_once(provider: Provider) -> None:
    @workflow
    async def deadline(ctx: WorkflowContext) -> list[int]:
        timer = ctx.sleep(timedelta(milliseconds=300))

        async def one(branch: Any) -> int:
            return (await ctx.race(branch, timer)).index

        first, second = await ctx.gather(one(ctx.activity(double, 1)), one(ctx.event("never")))
        return [first, second]

    async with Worker(provider, workflows=[deadline], activities=[double]):
        assert await (await WorkflowClient(provider).start(deadline)).result(10) == [0, 1]


async def test_a_wait_that_lost_a_race_can_be_awaited_again(provider: Provider) -> None:
    @workflow
    async def patient(ctx: WorkflowContext) -> list[Any]:
        message, event = ctx.receive("in", int), ctx.event("go", str)
        lost = await ctx.race(message, event, ctx.activity(double, 1))
        return [lost.index, await message, await event]

    async with Worker(provider, workflows=[patient], activities=[double]):
        handle = await WorkflowClient(provider).start(patient)
        await eventually(lambda: _events(provider, handle.id, 8))
        await handle.send("in", 7)
        await eventually(lambda: _events(provider, handle.id, 10))
        await handle.raise_event("go", "went")
        assert await handle.result(10) == [2, 7, "went"]


async def _events(provider: Provider, instance: str, count: int) -> bool:
    return len(await provider.read(instance)) >= count


async def test_an_activity_that_lost_a_race_says_so_when_awaited_again(provider: Provider) -> None:
    @activity
    async def long() -> None:
        await asyncio.sleep(60)

    @workflow
    async def impatient(ctx: WorkflowContext) -> None:
        asked = ctx.activity(long)
        await ctx.race(asked, ctx.sleep(0.01))
        await asked

    async with Worker(provider, workflows=[impatient], activities=[long]):
        handle = await WorkflowClient(provider).start(impatient)
        with pytest.raises(WorkflowFailed, match="Dropped: this branch lost a race"):
            await handle.result(10)


def _raiser(error: BaseException) -> Callable[[], None]:
    def raises() -> None:
        raise error

    return raises


def _async_raiser(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def raises() -> None:
        raise error

    return raises


ERRORS = [
    StopIteration("over"),
    SystemExit(3),
    KeyboardInterrupt("stop"),
    asyncio.CancelledError("gone"),
    GeneratorExit("left"),
    StopAsyncIteration("over"),
    BaseException("bare"),
]


@pytest.mark.parametrize("make", [_raiser, _async_raiser], ids=["sync", "async"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_whatever_an_activity_raises_is_its_failure(
    provider: Provider, error: BaseException, make: Callable[[BaseException], Any]
) -> None:
    raises: Any = activity(name="raises")(make(error))

    @workflow
    async def calls(ctx: WorkflowContext) -> str:
        try:
            await ctx.activity(raises)
        except ActivityFailed as failed:
            return str(failed)
        return "nothing was raised"

    async with Worker(provider, workflows=[calls], activities=[raises, double]):
        told = await (await WorkflowClient(provider).start(calls)).result(10)
        # a coroutine cannot end in StopIteration: Python itself makes it a RuntimeError
        assert type(error).__name__ in told or "coroutine raised StopIteration" in told
        assert not (await provider.list_instances(InstanceQuery(status="Running"))).instances


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_whatever_a_workflow_raises_is_its_failure(provider: Provider, error: BaseException) -> None:
    @workflow
    async def raises(ctx: WorkflowContext) -> None:
        await ctx.activity(double, 1)
        raise error

    settings = WorkerSettings(orchestrator_lock_timeout_ms=60_000)
    async with Worker(provider, workflows=[raises], activities=[double], settings=settings) as worker:
        handle = await WorkflowClient(provider).start(raises)
        with pytest.raises(WorkflowFailed, match=f"{type(error).__name__}|coroutine raised StopIteration"):
            await handle.result(10)
        assert worker.counters.orch_dispatcher_items_fetched <= 3, "no turn was run again"


async def test_sys_exit_in_a_branch_ends_the_instance_not_the_worker(provider: Provider) -> None:
    @workflow
    async def leaves(ctx: WorkflowContext) -> None:
        async def branch() -> None:
            await ctx.activity(double, 1)
            sys.exit(5)

        await ctx.gather(branch(), ctx.event("never"))

    async with Worker(provider, workflows=[leaves], activities=[double]):
        with pytest.raises(WorkflowFailed, match="SystemExit: 5"):
            await (await WorkflowClient(provider).start(leaves)).result(10)


async def test_children_end_with_their_parent(provider: Provider) -> None:
    @workflow
    async def parent(ctx: WorkflowContext, how: str) -> str:
        ctx.child(waits, id=f"{how}-child")
        await ctx.activity(double, 1)
        if how == "fails":
            raise ValueError("no more")
        if how == "waits":
            await ctx.event("never")
        return "done"

    async with Worker(provider, workflows=[parent, waits], activities=[double]):
        client = WorkflowClient(provider)
        assert await (await client.start(parent, "ends")).result(10) == "done"
        with pytest.raises(WorkflowFailed, match="no more"):
            await (await client.start(parent, "fails")).result(10)
        cancelled = await client.start(parent, "waits", id="p")
        await eventually(lambda: _is_known(provider, "waits-child"))
        await cancelled.cancel()
        for how, reason in (("ends", "parent completed"), ("fails", "parent failed"), ("waits", "parent canceled")):
            with pytest.raises(WorkflowCancelled, match=reason):
                await client.handle(waits, f"{how}-child").result(10)
