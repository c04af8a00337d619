"""R4: callers above READ COMMITTED have an old snapshot; they fail rather than lose a wake-up."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from queen.engine import Engine
from tests.support.wait import eventually
from tests.support.work import Sql, connect, lane, numbers, pop, push

LEVELS = ["repeatable read", "serializable"]
PUSH = "select queen.push('q', 'p', '{\"n\": 2}')"


async def snapshot(connection: Sql, level: str) -> None:
    """Begin a transaction and let it take its snapshot now."""
    await connection.execute(f"begin isolation level {level}")
    await connection.fetchval("select count(*) from pg_class")


async def blocked(sql: Sql) -> None:
    """Wait until somebody waits for a lock."""
    query = "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    await eventually(lambda: sql.fetchval(query))


@pytest.mark.parametrize("level", LEVELS)
async def test_a_push_alone_works_at_every_level(engine: Engine, database: str, level: str) -> None:
    async with connect(database) as other:
        for number in range(3):
            await snapshot(other, level)
            await other.execute(f"select queen.push('q', 'p{number % 2}', '{{\"n\": {number}}}')")
            await other.execute("commit")
    assert sorted(numbers(await pop(engine, partitions=2))) == [0, 1, 2]


@pytest.mark.parametrize("level", LEVELS)
async def test_a_lane_drained_since_the_snapshot(engine: Engine, sql: Sql, database: str, level: str) -> None:
    await push(engine, 1)
    got = await pop(engine)
    async with connect(database) as other:
        await snapshot(other, level)
        await engine.ack_messages(got)
        with pytest.raises(asyncpg.SerializationError):
            await other.execute(PUSH)
        await other.execute("rollback")


@pytest.mark.parametrize("level", LEVELS)
async def test_a_lane_being_drained_while_the_push_waits(engine: Engine, sql: Sql, database: str, level: str) -> None:
    """The ack holds the partition while it decides that nothing waits; the push must see that decision."""
    await push(engine, 1)
    (got,) = await pop(engine)
    async with connect(database) as acker, connect(database) as other:
        await snapshot(other, level)
        await acker.execute("begin")
        await acker.fetch(
            "select * from queen.ack_leases($1, $2, $3, $4)", [got.partition_id], [got.group], [got.lease_id], [1]
        )
        waiting = asyncio.create_task(other.execute(PUSH))
        await blocked(sql)
        await acker.execute("commit")
        with pytest.raises(asyncpg.SerializationError):
            await waiting
        await other.execute("rollback")
    assert (await lane(sql))["ready_at"] is None


@pytest.mark.parametrize("level", LEVELS)
async def test_a_group_registered_since_the_snapshot(engine: Engine, sql: Sql, database: str, level: str) -> None:
    await push(engine, 1)
    async with connect(database) as other:
        await snapshot(other, level)
        await engine.register("q", "late", mode="new")
        for partition in ("p", "new"):
            with pytest.raises(asyncpg.SerializationError):
                await other.execute(f"select queen.push('q', '{partition}', '{{\"n\": 2}}')")
            await other.execute("rollback")
            await snapshot(other, level)
            await sql.execute("update queen.queues set group_changes = group_changes + 1")
        await other.execute("rollback")


async def test_the_engine_tries_such_a_transaction_again(engine: Engine, sql: Sql) -> None:
    from tests.support.work import acks, message

    await push(engine, *range(10), queue="in")

    async def move() -> None:
        while got := await pop(engine, 1, queue="in"):
            await engine.transaction([message(100)], acks(got), isolation="serializable")

    await asyncio.gather(move(), move(), *[push(engine, n) for n in range(20)])
    total = 0
    while got := await pop(engine, 7):
        total += len(got)
        await engine.ack_messages(got)
    assert total == 30
