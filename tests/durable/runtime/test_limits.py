"""Limited workflows: they wait for a place before their code runs, and give it up however they end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queen.durable import (
    Limit,
    Provider,
    Worker,
    WorkflowCancelled,
    WorkflowClient,
    WorkflowContext,
    activity,
    workflow,
)
from queen.durable.testing import eventually

BEGUN: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    BEGUN.clear()
    SEEN.clear()


@workflow(limit=Limit(concurrency=1))
async def alone(ctx: WorkflowContext, rounds: int) -> str:
    if ctx.instance_id not in BEGUN:
        BEGUN.append(ctx.instance_id)
    if rounds:
        return ctx.continue_as_new(rounds - 1)
    return await ctx.event("end", str, buffered=True)


@workflow
async def parent(ctx: WorkflowContext, children: int) -> list[str]:
    return list(await ctx.gather(*(ctx.child(alone, 0, id=f"child-{number}") for number in range(children))))


async def test_one_after_the_other_however_they_end(provider: Provider) -> None:
    async with Worker(provider, workflows=[alone]):
        client = WorkflowClient(provider)
        handles = [await client.start(alone, 0, id=name) for name in ("a", "b", "c", "d")]
        await eventually(lambda: BEGUN == ["a"])
        await handles[1].cancel("not wanted")
        with pytest.raises(WorkflowCancelled):
            await handles[1].result(20)
        await handles[0].cancel("not wanted either")
        with pytest.raises(WorkflowCancelled):
            await handles[0].result(20)
        await eventually(lambda: BEGUN == ["a", "c"])
        waiting = await provider.get_instance_info("d")
        assert waiting is not None, "it waits, and can be seen"
        await handles[2].raise_event("end", "c")
        await eventually(lambda: BEGUN == ["a", "c", "d"])
        await provider.delete_instance("d", force=True)
        last = await client.start(alone, 0, id="e")
        await last.raise_event("end", "e")
        assert await last.result(20) == "e"


async def test_children_and_next_executions_have_places_too(provider: Provider) -> None:
    async with Worker(provider, workflows=[alone, parent]):
        client = WorkflowClient(provider)
        family = await client.start(parent, 2, id="p")
        await eventually(lambda: len(BEGUN) == 1)
        first = BEGUN[0]
        again = await client.start(alone, 2, id="again")
        await client.handle(alone, first).raise_event("end", "one")
        await eventually(lambda: len(BEGUN) == 2)
        second = BEGUN[1]
        await client.handle(alone, second).raise_event("end", "two")
        assert sorted(await family.result(20)) == ["one", "two"]
        await again.raise_event("end", "three")
        await eventually(lambda: "again" in BEGUN)
        await eventually(lambda: _execution(provider, "again", 3))
        await again.raise_event("end", "three")
        assert await again.result(20) == "three"
        assert await places(provider) == 0


async def _execution(provider: Provider, instance: str, wanted: int) -> bool:
    return await provider.latest_execution_id(instance) == wanted


async def places(provider: Provider) -> int:
    """How many runs hold or wait for something."""
    depths = await provider.get_queue_depths()
    return depths.worker


SEEN: list[tuple[str, int]] = []


@activity(limit=Limit(rate=5, per=timedelta(milliseconds=50), key=lambda customer, cents=1: customer, name="payments"))
async def pay(customer: str, cents: int = 1) -> int:
    SEEN.append((customer, cents))
    return cents


@workflow
async def pays(ctx: WorkflowContext, count: int) -> int:
    paid = [ctx.activity(pay, f"c{number % 2}") for number in range(count)]
    return sum(await ctx.gather(*paid))


async def test_a_key_may_be_made_of_arguments_left_out(provider: Provider) -> None:
    async with Worker(provider, workflows=[pays], activities=[pay]):
        assert await (await WorkflowClient(provider).start(pays, 12)).result(20) == 12
        assert len(SEEN) == 12
