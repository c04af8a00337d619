"""A lane that changes between a statement's snapshot and its lock."""

from __future__ import annotations

import asyncio

from queen.engine import Engine
from tests.support.wait import eventually
from tests.support.work import Sql, connect, lane, pop, push, up_to


async def test_a_lane_that_changes_under_the_statement_is_written_all_the_same(
    engine: Engine, database: str, sql: Sql
) -> None:
    """Between the statement's snapshot and its lock somebody renews the lease: what is answered has happened."""
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    await sql.execute(
        "create or replace function queen.clock() returns timestamptz language plpgsql volatile as $$ begin"
        " perform pg_advisory_xact_lock_shared(77); return clock_timestamp(); end $$"
    )
    await sql.execute("select pg_advisory_lock(77)")
    asked = asyncio.create_task(engine.ack_leases([up_to(got[1])]))
    waiting = "select count(*) = 1 from pg_locks where locktype = 'advisory' and not granted"
    await eventually(lambda: sql.fetchval(waiting))
    async with connect(database) as other:
        await other.execute(
            "update queen.partition_consumers set lease_expires_at = lease_expires_at + interval '1 hour'"
        )
    await sql.execute("select pg_advisory_unlock(77)")
    await asyncio.wait_for(asked, 20)
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["batch_to"]) == (2, 3)
