"""A caller's transaction that stays open after it made a partition: nobody who works on the queue waits for it."""

from __future__ import annotations

import pytest

from queen.engine import Engine
from queen.model import QUEUE_MODE
from tests.support.work import Sql, numbers, pop, push


@pytest.mark.parametrize("what", ["pause", "configure", "seek", "pop"])
async def test_an_open_transaction_that_made_a_partition_holds_up_nobody(engine: Engine, sql: Sql, what: str) -> None:
    """Each would wait until its lock times out, and fail."""
    await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'new', '{\"n\": 2}')")
        if what == "pause":
            await engine.queues.pause("q")
            await engine.queues.pause("q", paused=False)
        elif what == "configure":
            await engine.queues.configure("q", {"retry_limit": 1})
        elif what == "seek":
            assert (await engine.queues.seek("q", QUEUE_MODE, "end")).partitions > 0
        else:
            assert await pop(engine) == []
    assert numbers(await pop(engine)) == [2]


@pytest.mark.parametrize("mode", ["all", "new"])
async def test_a_group_that_comes_beside_it_does_not_wait_and_misses_nothing(
    engine: Engine, sql: Sql, mode: str
) -> None:
    await push(engine, 1)
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'new', '{\"n\": 2}')")
        await engine.register("q", "late", mode=mode)
        first = await pop(engine, group="late", batch=10)
        assert numbers(first) == ([1] if mode == "all" else [])
        await engine.ack_messages(first)
        assert await pop(engine, group="late") == []
    assert numbers(await pop(engine, group="late", partitions=10, batch=10)) == [2]
    assert await sql.fetchval("select settled from queen.subscriptions where consumer_group = 'late'")


async def test_what_nobody_could_give_it_yet_counts_and_is_kept(engine: Engine, sql: Sql) -> None:
    """Until it has its cursor in the new partition, depth and retention do not take it for one that has read all."""
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 1})
    await push(engine, 1)
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'new', '{\"n\": 2}')")
        await engine.register("q", "late")
    await engine.ack_messages(await pop(engine, batch=10, partitions=10))
    await sql.execute("update queen.messages set created_at = created_at - interval '1 hour'")
    await sql.execute(
        "update queen.partitions set oldest_at = oldest_at - interval '1 hour',"
        " last_created_at = last_created_at - interval '1 hour'"
    )
    assert await sql.fetchval("select queen.queue_depth(id) from queen.queues where name = 'q'") == 2
    assert await sql.fetchval("select sum(queen.retain_partitions(array[id])) from queen.partitions") == 0
    assert sorted(numbers(await pop(engine, group="late", partitions=10, batch=10))) == [1, 2]
