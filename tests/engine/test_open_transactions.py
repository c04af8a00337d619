"""A caller's transaction that stays open after it made a partition: nobody who works on the queue waits for it."""

from __future__ import annotations

import pytest

from queen.config import Settings
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from queen.model import QUEUE_MODE, AckStatus
from tests.support.clock import Clock
from tests.support.work import Sql, acks, lease_of, numbers, pop, push


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


async def test_retention_gives_it_its_cursors_where_it_never_pops_again(engine: Engine, sql: Sql, clock: Clock) -> None:
    """Otherwise nothing that was completed would be removed for as long as the group is known."""
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 1})
    await push(engine, 1)
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'new', '{\"n\": 2}')")
        await engine.register("q", "late", mode="new")
    await engine.ack_messages(await pop(engine, batch=10, partitions=10))
    await clock.advance(3600)
    assert (await Jobs(engine, Settings()).retention())["removed"] == 1
    assert numbers(await pop(engine, group="late", batch=10, partitions=10)) == [2]


async def test_the_view_counts_what_it_will_get(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'new', '{\"n\": 2}')")
        await engine.register("q", "late", mode="new")
    await engine.ack_messages(await pop(engine, batch=10, partitions=10))
    assert await sql.fetchval("select current_depth from queen.queue_depths where queue_name = 'q'") == 1


@pytest.mark.parametrize("status", ["completed", "failed", "dlq", "retry"])
async def test_an_ack_that_comes_too_late_does_not_wait_for_it(engine: Engine, sql: Sql, status: AckStatus) -> None:
    """The open push holds the group's cursor, because it made the partition ready; the lease is gone all the same."""
    await push(engine, 1)
    late = await pop(engine)
    await engine.release([lease_of(late)])
    await engine.ack_messages(await pop(engine))
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'p', '{\"n\": 2}')")
        assert [answer.verdict for answer in await engine.ack(acks(late, status))] == ["lost"]
    assert numbers(await pop(engine)) == [2]


async def test_a_seek_reaches_what_it_has_no_cursor_for_yet(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'new', '{\"n\": 2}')")
        await engine.register("q", "late")
    await engine.queues.seek("q", "late", "end")
    assert await pop(engine, group="late", batch=10, partitions=10) == []
