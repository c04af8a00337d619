"""R8: messages that vanish between the moment a pop picks its lanes and the moment it reads them."""

from __future__ import annotations

import asyncio

import pytest

from queen.engine import Engine
from tests.sql.mutation import alter
from tests.support.wait import eventually
from tests.support.work import Sql, connect, lane, numbers, pop, push


@pytest.mark.parametrize(("gone", "left"), [((1, 2, 3), []), ((1, 2), [3]), ((2,), [1, 3]), ((3,), [1, 2])])
async def test_a_batch_that_vanishes(
    engine: Engine, sql: Sql, database: str, gone: tuple[int, ...], left: list[int]
) -> None:
    pushed = await push(engine, 1, 2, 3)
    await engine.register("q", "__QUEUE_MODE__")
    # The pop now stops after it has taken its lanes, before it reads their messages.
    stop = "perform pg_advisory_xact_lock_shared(4711);"
    alter(database, "pop_lanes", "    if t.req is null then\n", f"    {stop}\n    if t.req is null then\n")
    async with connect(database) as gate:
        await gate.execute("select pg_advisory_lock(4711)")
        popping = asyncio.create_task(pop(engine))
        waiting = "select count(*) > 0 from pg_locks where locktype = 'advisory' and not granted"
        await eventually(lambda: sql.fetchval(waiting))
        for seq in gone:
            await engine.delete_message(pushed[0].partition_id, pushed[seq - 1].transaction_id)
        await gate.execute("select pg_advisory_unlock(4711)")
        got = await asyncio.wait_for(popping, 10)
    assert numbers(got) == left
    assert [m.seq for m in got] == left
    if not left:
        assert (await lane(sql))["lease_id"] is None
    await push(engine, 4)
    if not left:
        assert numbers(await pop(engine)) == [4]
