"""Where a group starts, and that neither a new group nor a new partition misses the other."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from queen.engine import Engine
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import WAITS_FOR_A_LOCK, Sql, connect, lane, message, numbers, pop, push


async def test_all_starts_at_the_beginning(engine: Engine) -> None:
    await push(engine, 1, 2)
    assert numbers(await pop(engine, group="g", mode="all")) == [1, 2]


async def test_new_starts_at_the_head(engine: Engine) -> None:
    await push(engine, 1, 2)
    assert await pop(engine, group="g", mode="new") == []
    await push(engine, 3)
    await push(engine, 4, partition="later")
    assert numbers(await pop(engine, group="g", mode="new", partitions=2)) == [3, 4]


async def test_new_is_a_head_and_not_a_time(engine: Engine, database: str) -> None:
    """A push under way at the first contact has an older time, yet commits later: it is delivered."""
    await push(engine, 1)
    async with connect(database) as other, other.transaction():
        await other.execute("select queen.push('q', 'p', '{\"n\": 2}')")
        assert await pop(engine, group="g", mode="new") == []
    assert numbers(await pop(engine, group="g", mode="new", wait=5)) == [2]


async def test_from_a_timestamp(engine: Engine, clock: Clock, sql: Sql) -> None:
    for number in range(1, 5):
        await push(engine, number)
        await clock.advance(60)
    third = await sql.fetchval("select created_at from queen.messages where seq = 3")
    assert numbers(await pop(engine, group="g", mode="timestamp", start_at=third)) == [3, 4]


async def test_from_a_time_to_come_is_new(engine: Engine, clock: Clock) -> None:
    await push(engine, 1)
    future = await clock.now() + timedelta(days=1)
    assert await pop(engine, group="g", mode="timestamp", start_at=future) == []
    await push(engine, 2)
    assert numbers(await pop(engine, group="g")) == [2]


async def test_it_is_decided_at_first_contact_also_on_an_empty_queue(engine: Engine, sql: Sql) -> None:
    assert await pop(engine, group="g", mode="new") == []
    row = await sql.fetchrow("select mode, filled from queen.subscriptions")
    assert row is not None
    assert (row["mode"], row["filled"]) == ("new", True)
    await push(engine, 1)
    assert numbers(await pop(engine, group="g", mode="all")) == [1]


async def test_queue_mode_always_has_everything(engine: Engine) -> None:
    await push(engine, 1)
    assert numbers(await pop(engine, mode="new")) == [1]


async def test_two_first_contacts_at_once_agree(engine: Engine, sql: Sql, database: str) -> None:
    """What commits after the first of them is delivered: the second must not move the start."""
    await push(engine, 1)
    async with connect(database) as other:
        assert await other.fetchval("select queen.subscribe('q', 'g', 'new', null)")
        await push(engine, 2)
        async with other.transaction():
            # The second comes in while the first has not added its cursors yet.
            await other.execute("update queen.queues set group_changes = group_changes where name = 'q'")
            late = asyncio.create_task(engine.register("q", "g", mode="new"))
            await asyncio.wait([late], timeout=0.1)
        await late
    assert numbers(await pop(engine, group="g")) == [2]


async def test_two_first_contacts_that_both_saw_no_group(engine: Engine, database: str) -> None:
    await push(engine, 1)
    async with connect(database) as one, connect(database) as two:
        transaction = one.transaction()
        await transaction.start()
        await one.fetchval("select queen.subscribe('q', 'g', 'new', null)")
        second = asyncio.create_task(two.fetchval("select queen.subscribe('q', 'g', 'new', null)"))
        await eventually(lambda: one.fetchval(WAITS_FOR_A_LOCK))
        await push(engine, 2)
        await transaction.commit()
        await second
    await engine.register("q", "g")
    assert numbers(await pop(engine, group="g")) == [2]


async def test_a_group_has_a_cursor_in_every_partition(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, partition="old")
    await engine.register("q", "g", mode="new")
    await push(engine, 2, partition="young")
    assert (await lane(sql, partition="old", group="g"))["last_consumed_seq"] == 1
    assert (await lane(sql, partition="young", group="g"))["last_consumed_seq"] == 0


@pytest.mark.parametrize("mode", ["all", "new"])
async def test_first_contact_with_5000_partitions(engine: Engine, sql: Sql, mode: str) -> None:
    await engine.push([message(n, partition=str(n)) for n in range(5_000)])
    started = time.monotonic()
    await engine.register("q", "g", mode=mode)
    assert time.monotonic() - started < 5
    rows = await sql.fetch(
        "select count(*) as n, count(ready_at) as ready from queen.partition_consumers where consumer_group = 'g'"
    )
    assert dict(rows[0]) == {"n": 5_000, "ready": 5_000 if mode == "all" else 0}
    assert len(await pop(engine, 5_000, group="g", partitions=5_000)) == (5_000 if mode == "all" else 0)


async def test_partitions_made_while_a_group_registers(engine: Engine, sql: Sql) -> None:
    """R5: from many sides at once; every partition ends up with its cursor, and nothing is missed."""

    async def produce(producer: int) -> None:
        for number in range(40):
            await push(engine, number, partition=f"{producer}-{number}")

    async def register(group: int) -> None:
        await asyncio.sleep(0)
        await engine.register("q", f"g{group}")

    await asyncio.gather(*[produce(n) for n in range(4)], *[register(n) for n in range(6)])
    for group in range(6):
        assert len(await pop(engine, 200, group=f"g{group}", partitions=200)) == 160
