"""Workflows and Queen queues on one PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queen.durable import (
    ActivityContext,
    Provider,
    Worker,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    activity,
    open_provider,
    workflow,
)
from queen.durable.codec import load
from queen.durable.queues import QueueBridge, SignalFrom, StartFrom
from queen.engine import Engine
from queen.model import NewMessage, PopRequest

TRACE = uuid.UUID("0190d9a6-7c2b-7000-8000-000000000001")


@activity
async def announce(ctx: ActivityContext, order: int) -> str:
    ctx.push("shipped", {"order": order}, partition=f"order-{order}")
    return "announced"


@activity
async def announce_and_fail(ctx: ActivityContext) -> None:
    ctx.push("never", {"order": 0})
    raise ValueError("no")


@workflow
async def fulfil(ctx: WorkflowContext, order: dict[str, Any]) -> int:
    ctx.push("accepted", order, partition="all")
    paid = await ctx.receive("payment", dict[str, int])
    await ctx.activity(announce, order["id"])
    return paid["cents"]


@workflow
async def fails(ctx: WorkflowContext) -> None:
    await ctx.activity(announce_and_fail)


@pytest.fixture
async def provider(database: str) -> AsyncIterator[Provider]:
    async with await open_provider(database) as opened:
        yield opened


@pytest.fixture
async def engine(database: str) -> AsyncIterator[Engine]:
    async with Engine.connect(database) as opened:
        yield opened


def order_of(payload: dict[str, Any]) -> str:
    return f"order-{payload['id']}"


STARTS = StartFrom("orders", fulfil, instance=order_of)
SIGNALS = SignalFrom("payments", lambda payload: f"order-{payload['order']}", "payment")


def message(queue: str, payload: str, transaction_id: str) -> NewMessage:
    return NewMessage(queue=queue, payload=payload, transaction_id=transaction_id, trace_id=TRACE)


async def popped(engine: Engine, queue: str) -> list[tuple[str, Any, uuid.UUID | None, str]]:
    found = await engine.pop(PopRequest(queue=queue, batch=100, partitions=100, wait=5))
    return [(each.partition, load(each.payload), each.trace_id, each.transaction_id) for each in found]


async def test_messages_start_and_signal_workflows_and_workflows_push(engine: Engine, provider: Provider) -> None:
    await engine.push([message("orders", f'{{"id": {n}}}', f"o{n}") for n in range(3)])
    await engine.push([message("payments", f'{{"order": {n}, "cents": {n * 100}}}', f"p{n}") for n in range(3)])
    async with (
        Worker(provider, workflows=[fulfil], activities=[announce]),
        QueueBridge(engine, provider, [STARTS, SIGNALS]) as bridge,
    ):
        client = WorkflowClient(provider)
        results = [await client.handle(fulfil, f"order-{n}").result() for n in range(3)]
        assert results == [0, 100, 200]
        assert bridge.handed_over == 6
    seeds = [(await provider.read(f"order-{n}"))[0].seed for n in range(3)]  # type: ignore[union-attr]
    assert sorted(await popped(engine, "shipped")) == [
        (f"order-{n}", {"order": n}, TRACE, f"order-{n}:{seeds[n]}:{5}:0") for n in range(3)
    ]
    accepted = await popped(engine, "accepted")
    assert sorted(payload["id"] for _, payload, _, _ in accepted) == [0, 1, 2]
    info = await provider.get_instance_info("order-1")
    assert info is not None
    assert info.trace_id == str(TRACE)


async def test_a_message_handed_over_twice_counts_once(engine: Engine, provider: Provider) -> None:
    """A bridge that died after the hand-over and before the ack: the message comes again."""
    await engine.push([message("orders", '{"id": 7}', "o7")])
    await engine.push([message("payments", '{"order": 7, "cents": 5}', "p7")])
    again = [StartFrom("orders", fulfil, instance=order_of, group=f"g{n}") for n in range(3)]
    signals = [SignalFrom("payments", SIGNALS.instance, "payment", group=f"g{n}") for n in range(3)]
    bridge = QueueBridge(engine, provider, [])
    routes: list[StartFrom | SignalFrom] = [*again, *signals]
    for route in routes:
        assert await bridge.take(route, wait=5) == 1
    async with Worker(provider, workflows=[fulfil], activities=[announce]):
        assert await WorkflowClient(provider).handle(fulfil, "order-7").result() == 5
    kinds = [type(each).__name__ for each in await provider.read("order-7")]
    assert kinds.count("OrchestrationStarted") == 1
    assert kinds.count("QueueEventDelivered") == 1
    assert len(await popped(engine, "accepted")) == 1


async def test_a_message_for_nobody_is_a_dead_letter(engine: Engine, provider: Provider) -> None:
    await engine.push([message("orders", '{"no": "id"}', "bad"), message("orders", '{"id": 1}', "good")])
    bridge = QueueBridge(engine, provider, [])
    assert await bridge.take(STARTS, wait=5) == 2
    assert bridge.handed_over == 1
    async with Worker(provider, workflows=[fulfil], activities=[announce]):
        await WorkflowClient(provider).handle(fulfil, "order-1").send("payment", {"cents": 1})
        assert await WorkflowClient(provider).handle(fulfil, "order-1").result() == 1
    dead = await engine.database.fetch("select error_message from queen.dead_letter_queue")
    assert [each[0] for each in dead] == ["no instance for this message: KeyError: 'id'"]


async def test_nothing_is_pushed_by_an_activity_that_fails(engine: Engine, provider: Provider) -> None:
    async with Worker(provider, workflows=[fails], activities=[announce_and_fail]):
        with pytest.raises(WorkflowFailed):
            await (await WorkflowClient(provider).start(fails)).result()
    assert await engine.pop(PopRequest(queue="never")) == []


async def test_a_store_without_queues_says_so() -> None:
    @activity
    async def pushes(ctx: ActivityContext) -> None:
        ctx.push("orders", 1)

    @workflow
    async def by_activity(ctx: WorkflowContext) -> None:
        await ctx.activity(pushes)

    @workflow
    async def by_turn(ctx: WorkflowContext) -> None:
        ctx.push("orders", 1)
        await ctx.sleep(60)

    async with (
        await open_provider("sqlite::memory:") as store,
        Worker(store, workflows=[by_activity, by_turn], activities=[pushes]),
    ):
        client = WorkflowClient(store)
        with pytest.raises(WorkflowFailed, match=r"Activity 'pushes' call failed: .*PostgreSQL"):
            await (await client.start(by_activity)).result()
        with pytest.raises(WorkflowFailed, match=r"infrastructure:ack_orchestration_item: .*PostgreSQL"):
            await (await client.start(by_turn)).result()
