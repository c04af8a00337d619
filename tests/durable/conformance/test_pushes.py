"""Messages for Queen queues, stored in the transaction of a checkpoint."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from queen.durable.model import ExecutionMetadata, QueuePush, TurnCommit
from queen.durable.provider import Provider
from queen.durable.providers.postgres.provider import PostgresProvider
from queen.durable.providers.sqlite.provider import SqliteProvider
from tests.durable.conformance.story import (
    begin,
    completed,
    fetch,
    fetch_task,
    raised,
    refusal,
    scheduled,
    started,
    task,
)
from tests.durable.stores import Address

TRACE = "0190d9a6-7c2b-7000-8000-000000000001"


async def pushed(address: Address) -> list[tuple[str, str, str, str | None]]:
    connection = await asyncpg.connect(address.where)
    try:
        rows = await connection.fetch(
            "select q.name, p.name, m.payload::text, m.trace_id::text from queen.messages m"
            " join queen.partitions p on p.id = m.partition_id join queen.queues q on q.id = p.queue_id"
            " order by m.pos"
        )
    finally:
        await connection.close()
    return [tuple(row) for row in rows]


async def test_a_turn_and_its_pushes_are_one(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        await begin(provider, "a")
        await provider.enqueue_for_orchestrator(raised("a"))
        item = await fetch(provider)
        push = QueuePush(queue="orders", partition="eu", payload='{"n": 1}', trace_id=TRACE, transaction_id="t1")
        bad = TurnCommit(execution_id=1, history_delta=(started("a"),), pushes=(push,))
        assert await refusal(provider.ack_orchestration_item(item.token, bad)) == "duplicate_event"
        assert await pushed(postgres_address) == []
        good = TurnCommit(execution_id=1, history_delta=(scheduled("a", 2),), pushes=(push, push))
        await provider.ack_orchestration_item(item.token, good)
        assert await pushed(postgres_address) == [("orders", "eu", '{"n": 1}', TRACE)]
        assert await refusal(provider.ack_orchestration_item(item.token, good)) == "lock_lost"
        assert len(await pushed(postgres_address)) == 1


async def test_an_activity_and_its_pushes_are_one(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
        found = await fetch_task(provider)
        push = QueuePush(queue="orders", payload='"x"')
        assert await refusal(provider.ack_work_item("nobody's", completed("a"), pushes=[push])) == "lock_lost"
        assert await pushed(postgres_address) == []
        await provider.ack_work_item(found.token, completed("a"), pushes=[push])
        assert await pushed(postgres_address) == [("orders", "Default", '"x"', None)]
        assert (await fetch(provider)).messages == [completed("a")]


async def test_a_refused_push_refuses_its_turn_only(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        for instance in ("a", "b"):
            await begin(provider, instance)
        for instance in ("a", "b"):
            await provider.enqueue_for_orchestrator(raised(instance))
        items = await provider.fetch_orchestration_items(lock_timeout_ms=5_000, limit=2)
        pushes = {"a": QueuePush(queue="orders", payload="not json"), "b": QueuePush(queue="orders", payload="1")}
        outcomes = await asyncio.gather(
            *(
                provider.ack_orchestration_item(
                    item.token,
                    TurnCommit(
                        execution_id=1,
                        history_delta=(scheduled(item.instance, 2),),
                        pushes=(pushes[item.instance],),
                        metadata=ExecutionMetadata(),
                    ),
                )
                for item in items
            ),
            return_exceptions=True,
        )
        assert {item.instance: outcome is None for item, outcome in zip(items, outcomes, strict=True)} == {
            "a": False,
            "b": True,
        }
        assert [len(await provider.read(instance)) for instance in ("a", "b")] == [1, 2]
        assert [row[2] for row in await pushed(postgres_address)] == ["1"]


async def test_sqlite_says_that_it_cannot(sqlite_address: Address) -> None:
    provider: Provider = await SqliteProvider.open(sqlite_address.where)
    async with provider:
        assert not provider.supports_pushes
        await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
        found = await fetch_task(provider)
        push = QueuePush(queue="orders", payload="1")
        assert await refusal(provider.ack_work_item(found.token, completed("a"), pushes=[push])) == "refused"
        await provider.enqueue_for_orchestrator(raised("a"))
        item = await fetch(provider)
        commit = TurnCommit(execution_id=1, pushes=(push,))
        assert await refusal(provider.ack_orchestration_item(item.token, commit)) == "refused"


@pytest.mark.parametrize("deliver_in_ms", [-1_000, 3_600_000])
async def test_a_push_may_be_for_later(postgres_address: Address, deliver_in_ms: int) -> None:
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        await begin(provider, "a")
        await provider.enqueue_for_orchestrator(raised("a"))
        item = await fetch(provider)
        push = QueuePush(queue="orders", payload="1", deliver_at_ms=provider.now_ms() + deliver_in_ms)
        await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, pushes=(push,)))
        assert len(await pushed(postgres_address)) == (deliver_in_ms < 0)
