"""Connections stay with us between two uses, and nobody waits for one that is kept."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from queen.db.pool import KEPT, Database, PoolOptions
from tests.support.wait import eventually
from tests.support.work import connect

PID = "select pg_backend_pid()"


async def pid(database: Database) -> int:
    return int((await database.fetchrow(PID))[0])


async def test_a_connection_is_used_again(database: str) -> None:
    async with Database(database) as pool:
        assert await pid(pool) == await pid(pool)
        assert pool.sizes == (1, 1)
        assert pool.waits == 2


async def test_one_that_the_server_closed_meanwhile_is_replaced(database: str) -> None:
    async with Database(database) as pool, connect(database) as other:
        gone = await pid(pool)
        await other.execute("select pg_terminate_backend($1)", gone)

        await eventually(lambda: not psutil.pid_exists(gone))
        await other.fetchval(PID)  # by the time this is answered, what came before it was heard of
        assert await pid(pool) != gone


async def test_whoever_waits_gets_the_next_free_one(database: str) -> None:
    async with Database(database, PoolOptions(size=1, acquire_timeout=20)) as pool:
        async with pool.connection() as held:
            waiting = [asyncio.create_task(pid(pool)) for _ in range(5)]
            await asyncio.sleep(0)
            mine = await held.fetchval(PID)
        assert await asyncio.gather(*waiting) == [mine] * 5


async def test_only_a_few_are_kept(database: str) -> None:
    async with Database(database, PoolOptions(size=10)) as pool:
        all_out = asyncio.Barrier(10)

        async def borrow() -> None:
            async with pool.connection():
                await all_out.wait()

        await asyncio.gather(*(borrow() for _ in range(10)))
        assert pool.sizes == (10, 10)
        assert len({await pid(pool) for _ in range(20)}) == 1
        assert len(pool._kept) <= KEPT


async def test_what_broke_is_not_kept(database: str) -> None:
    async with Database(database) as pool:
        with pytest.raises(ZeroDivisionError):
            async with pool.connection():
                raise ZeroDivisionError
        assert pool._kept == []
        assert await pid(pool)


async def test_closing_lets_go_of_those_kept(database: str) -> None:
    async with connect(database) as other:
        async with Database(database) as pool:
            mine = await pid(pool)

        async def ended() -> bool:
            return not await other.fetchval("select exists (select from pg_stat_activity where pid = $1)", mine)

        await eventually(ended)
