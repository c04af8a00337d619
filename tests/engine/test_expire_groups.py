"""Groups nobody uses any more: seen, and forgotten where that is asked for."""

from __future__ import annotations

from queen.engine import Engine
from queen.model import QUEUE_MODE
from tests.support.clock import Clock
from tests.support.work import Sql, numbers, pop, push

DAY = 86_400
EXPIRE = "select queen.expire_groups(interval '30 days')::int"
GROUPS = "select array_agg(consumer_group order by consumer_group) from queen.subscriptions"


async def test_a_group_that_nobody_uses_expires(engine: Engine, sql: Sql, clock: Clock) -> None:
    for group in ("used", "left", QUEUE_MODE):
        await engine.register("q", group)
    await push(engine, 1)
    await clock.advance(31 * DAY)
    assert await pop(engine, group="used") != []
    assert await sql.fetchval(EXPIRE) == 1
    assert await sql.fetchval(GROUPS) == [QUEUE_MODE, "used"]
    assert await sql.fetchval(EXPIRE) == 0


async def test_an_empty_pop_is_a_use(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.register("q", "g")
    for _ in range(3):
        await clock.advance(20 * DAY)
        assert await pop(engine, group="g") == []
    assert await sql.fetchval(EXPIRE) == 0


async def test_a_long_lease_is_a_use(engine: Engine, sql: Sql, clock: Clock) -> None:
    await push(engine, 1)
    await engine.register("q", "g")
    (message,) = await pop(engine, group="g")
    await sql.execute("update queen.partition_consumers set lease_expires_at = now() + interval '99 days'")
    await clock.advance(31 * DAY)
    assert await sql.fetchval("select queen.forget_group('g', 'q', true, queen.clock())") == 0
    await engine.ack_messages([message])


async def test_what_it_held_back_is_free(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_queue_size": 2})
    for group in ("used", "left"):
        await engine.register("q", group)
    await push(engine, 1, 2)
    await clock.advance(31 * DAY)
    await engine.ack_messages(await pop(engine, group="used"))
    await sql.fetchval(EXPIRE)
    await push(engine, 3, 4)
    assert numbers(await pop(engine, group="used")) == [3, 4]
    assert numbers(await pop(engine, group="left")) == [1, 2, 3, 4], "one that comes back starts anew"
