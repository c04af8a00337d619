"""max_wait_time_seconds: too old to be useful means dead-lettered, never silently gone."""

from __future__ import annotations

from queen.engine import Engine
from tests.support.clock import Clock
from tests.support.work import Sql, dead, lane, numbers, pop, push

EVICT = "select (queen.evict_queue(id, null, null, $1)).handled::int from queen.queues where name = 'q'"


async def test_too_old_is_dead_lettered_once_per_group(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    for group in ("a", "b"):
        await engine.register("q", group)
    await push(engine, 1, 2)
    await engine.ack_messages(await pop(engine, 1, group="a"))
    await clock.advance(61)
    await push(engine, 3)
    assert await sql.fetchval(EVICT, 1000) == 3
    assert await dead(sql, group="a") == [2]
    assert await dead(sql, group="b") == [1, 2]
    assert await sql.fetchval("select bool_and(evicted) from queen.dead_letter_queue")
    assert await sql.fetchval(EVICT, 1000) == 0
    assert numbers(await pop(engine, group="b")) == [3]


async def test_a_pop_never_hands_it_out(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await engine.register("q", "g")
    await push(engine, 1)
    await clock.advance(61)
    await push(engine, 2)
    assert numbers(await pop(engine, group="g")) == [2]
    assert await dead(sql, group="g") == [1]


async def test_not_inside_a_live_lease(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await push(engine, 1)
    got = await pop(engine, lease_seconds=100)
    await clock.advance(61)
    assert await sql.fetchval(EVICT, 1000) == 0
    await engine.ack_messages(got)
    assert await dead(sql) == []


async def test_after_the_lease_it_goes(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await push(engine, 1)
    await pop(engine, lease_seconds=30)
    await clock.advance(61)
    assert await sql.fetchval(EVICT, 1000) == 1
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["ready_at"]) == (1, None)


async def test_history_before_the_first_contact_is_simply_skipped(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await push(engine, 1)
    await clock.advance(61)
    await push(engine, 2)
    assert numbers(await pop(engine, group="g")) == [2]
    assert await dead(sql, group="g") == []


async def test_more_than_a_portion(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await engine.register("q", "g")
    await push(engine, *range(2500))
    await clock.advance(61)
    await push(engine, 9999)
    assert numbers(await pop(engine, group="g")) == [9999]
    assert await dead(sql, group="g") == list(range(2500))


async def test_the_service_goes_in_portions_too(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await engine.register("q", "g")
    await push(engine, *range(10))
    await clock.advance(61)
    assert [await sql.fetchval(EVICT, 4) for _ in range(4)] == [4, 4, 2, 0]
    assert await dead(sql, group="g") == list(range(10))
