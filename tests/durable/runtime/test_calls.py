"""How workflows and activities are called: by reference or by name, with defaults, in a version, not directly."""

from __future__ import annotations

from typing import Any

import pytest

from queen.durable import (
    ActivityContext,
    Provider,
    Worker,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowTimedOut,
    activity,
    open_provider,
    workflow,
)
from queen.durable.messages import StartMessage
from tests.durable.stores import Address


@activity
async def joined(first: str, second: str = "b", third: str = "c") -> str:
    return first + second + third


@workflow
async def joins(ctx: WorkflowContext, first: str, second: str = "2") -> list[str]:
    return [
        await ctx.activity(joined, first),
        await ctx.activity(joined, first, third=second),
    ]


async def test_defaults_and_keywords(provider: Provider) -> None:
    async with Worker(provider, workflows=[joins], activities=[joined]):
        client: Any = WorkflowClient(provider)
        assert await (await client.start(joins, "a")).result(10) == ["abc", "ab2"]
        assert await (await client.start(joins, "a", second="x")).result(10) == ["abc", "abx"]
        assert await (await client.start(joins, second="x", first="y")).result(10) == ["ybc", "ybx"]
        with pytest.raises(TypeError, match="unexpected keyword argument 'third'"):
            await client.start(joins, "a", third="x")
        with pytest.raises(TypeError, match="missing a required argument: 'first'"):
            await client.start(joins)


async def test_a_workflow_is_started_by_name(provider: Provider) -> None:
    async with Worker(provider, workflows=[joins], activities=[joined]):
        client: Any = WorkflowClient(provider)
        assert await (await client.start("joins", "a", "z", id="j")).result(10) == ["abc", "abz"]
        assert await client.handle("joins", "j").result(10) == ["abc", "abz"]
        with pytest.raises(TypeError, match="a workflow is given as what @workflow made, or by its name, not as int"):
            await client.start(5)


async def test_a_parameter_added_with_a_default_meets_instances_started_before(provider: Provider) -> None:
    @workflow(name="grows", version="1.0.0")
    async def before(ctx: WorkflowContext, items: list[str]) -> int:
        await ctx.event("go")
        return len(items)

    @workflow(name="grows", version="1.0.0")
    async def after(ctx: WorkflowContext, items: list[str], factor: int = 10, extra: int = 1) -> int:
        await ctx.event("go")
        return len(items) * factor + extra

    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[before]) as worker:
        handles = [await client.start(before, given) for given in (["a", "b"], ["a", "b", "c"], [])]
        for handle in handles:
            while not await provider.read(handle.id):
                await provider.wait_for_change(handle.id, timeout_ms=1000)
        await worker.stop()
    async with Worker(provider, workflows=[after]):
        for handle in handles:
            await handle.raise_event("go")
        assert [await handle.result(10) for handle in handles] == [21, 31, 1]


async def test_a_workflow_with_a_version_is_started_in_it(provider: Provider) -> None:
    @workflow(name="versioned", version="1.0.0")
    async def first(ctx: WorkflowContext) -> str:
        return ctx.workflow_version

    @workflow(name="versioned", version="2.0.0")
    async def second(ctx: WorkflowContext) -> str:
        return ctx.workflow_version

    @workflow
    async def parent(ctx: WorkflowContext) -> str:
        return await ctx.child(first)

    async with Worker(provider, workflows=[first, second, parent]):
        client = WorkflowClient(provider)
        assert await (await client.start(first)).result(10) == "1.0.0"
        assert await (await client.start(second)).result(10) == "2.0.0"
        assert await (await client.start("versioned")).result(10) == "2.0.0"
        assert await (await client.start(first, version="2.0.0")).result(10) == "2.0.0"
        assert await (await client.start(parent)).result(10) == "1.0.0"


async def test_the_result_of_what_is_not_there(provider: Provider) -> None:
    @workflow
    async def waits(ctx: WorkflowContext) -> None:
        await ctx.event("never")

    client = WorkflowClient(provider)
    with pytest.raises(WorkflowNotFound, match="workflow 'nobody' is not known: never started, or not begun"):
        await client.handle(waits, "nobody").result(0.05)
    async with Worker(provider, workflows=[waits]):
        handle = await client.start(waits, id="w")
        while not await provider.read("w"):
            await provider.wait_for_change("w", timeout_ms=1000)
        with pytest.raises(WorkflowTimedOut, match=r"workflow 'w' did not end within 0.05 s: it is Running"):
            await handle.result(0.05)


CALLED: list[str] = []


@activity
def effect(what: str) -> str:
    CALLED.append(what)
    return what


async def test_an_activity_called_directly_in_a_workflow_is_an_error(provider: Provider) -> None:
    @workflow
    async def direct(ctx: WorkflowContext) -> str:
        done: str = effect("by mistake")
        return done

    CALLED.clear()
    async with Worker(provider, workflows=[direct], activities=[effect]):
        handle = await WorkflowClient(provider).start(direct)
        with pytest.raises(WorkflowFailed, match=r"DirectCall: .*write: await ctx\.activity\(effect, \.\.\.\)"):
            await handle.result(10)
    assert not CALLED
    assert effect("in a unit test") == "in a unit test", "outside a workflow it is the plain function"


async def test_activities_may_call_each_other(provider: Provider) -> None:
    @activity
    async def outer(text: str) -> str:
        made: str = effect(text)
        return made

    @workflow
    async def calls(ctx: WorkflowContext) -> str:
        return await ctx.activity(outer, "inner")

    async with Worker(provider, workflows=[calls], activities=[outer]):
        assert await (await WorkflowClient(provider).start(calls)).result(10) == "inner"


@activity
async def keys_of(ctx: ActivityContext, fail: bool) -> list[str]:
    CALLED.append(ctx.idempotency_key)
    if fail and len(CALLED) < 3:
        raise ValueError("again")
    return list(CALLED)


async def test_an_instance_made_again_is_another_one(provider: Provider) -> None:
    @workflow
    async def identity(ctx: WorkflowContext) -> list[str]:
        CALLED.clear()
        (key,) = await ctx.activity(keys_of, False)
        await ctx.event("go")
        return [str(ctx.uuid()), str(ctx.random.random()), key]

    async def run() -> list[str]:
        handle = await client.start(identity, id="same")
        while len(await provider.read("same")) < 4:
            await provider.wait_for_change("same", timeout_ms=1000)
        await handle.raise_event("go")
        return await handle.result(10)

    async with Worker(provider, workflows=[identity], activities=[keys_of]):
        client = WorkflowClient(provider)
        first = await run()
        await provider.delete_instance("same")
        second = await run()
    assert not set(first) & set(second), (first, second)


async def test_pushes_of_an_instance_made_again_are_not_taken_for_repeats(postgres_address: Address) -> None:
    @workflow
    async def pushes(ctx: WorkflowContext) -> None:
        ctx.push("made", 1)

    async with (
        await open_provider(postgres_address.where) as provider,
        Worker(provider, workflows=[pushes]),
    ):
        for _ in range(2):
            await (await WorkflowClient(provider).start(pushes, id="same")).result(10)
            await provider.delete_instance("same")
    (row,) = await postgres_address.execute("select count(distinct transaction_id) from queen.messages")
    assert row[0] == 2


async def test_a_stored_start_of_an_older_client_still_begins(provider: Provider) -> None:
    """Input without an array for one argument, as every client wrote it before defaults were known."""
    await provider.enqueue_for_orchestrator(StartMessage(instance="old", name="joins", input='"a"'))
    async with Worker(provider, workflows=[joins], activities=[joined]):
        assert await WorkflowClient(provider).handle(joins, "old").result(10) == ["abc", "ab2"]
