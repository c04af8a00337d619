"""Single pushes remember the partitions they stored into; what they remember may be out of date."""

from __future__ import annotations

import asyncio

import pytest

from queen.engine import Engine
from queen.engine import push as pushing
from tests.support.work import Sql, message, push, stored

# Whoever has to look for a partition fails from now on, and leaves a trace that no rollback takes away.
NO_LOOKING = """
create sequence public.looked;
create or replace function queen.lock_heads(
    p_ids bigint[], p_wait boolean, out bases bigint[], out times timestamptz[], out places tid[], out missing boolean
) language plpgsql as $$ begin perform nextval('public.looked'); raise exception 'looked for a partition'; end $$
"""
LOOKED = "select is_called from public.looked"


async def push_each(engine: Engine, *names: str) -> list[int | None]:
    """Single messages for each partition at the same time; their seqs."""
    answers = await asyncio.gather(*(push(engine, 1, partition=name) for name in names))
    return [pushed.seq for (pushed,) in answers]


async def test_partitions_are_looked_for_once(engine: Engine, sql: Sql) -> None:
    names = [f"p{number}" for number in range(40)]
    await push_each(engine, *reversed(names))
    await sql.execute(NO_LOOKING)
    assert await push_each(engine, *names) == [2] * 40
    assert await push_each(engine, "p3") == [3]
    assert not await sql.fetchval(LOOKED)


async def test_what_a_batch_stored_into_is_known_as_well(engine: Engine, sql: Sql) -> None:
    await engine.push([message(number, partition="ab"[number % 2]) for number in range(200)])
    await sql.execute(NO_LOOKING)
    assert await push_each(engine, "a", "b") == [101, 101]
    assert not await sql.fetchval(LOOKED)


async def test_a_new_partition_among_known_ones(engine: Engine, sql: Sql) -> None:
    await push_each(engine, "a", "b")
    assert await push_each(engine, "b", "c", "a") == [2, 1, 2]
    await sql.execute(NO_LOOKING)
    assert await push_each(engine, "a", "b", "c") == [3, 3, 2]
    assert not await sql.fetchval(LOOKED)


async def test_a_partition_that_was_deleted_is_made_again_and_known_again(engine: Engine, sql: Sql) -> None:
    await push_each(engine, "a", "b", "c")
    await sql.execute("delete from queen.partitions where name = 'b'")
    assert await push_each(engine, "a", "b", "c") == [2, 1, 2]
    await sql.execute(NO_LOOKING)
    assert await push_each(engine, "a", "b", "c") == [3, 2, 3]
    assert not await sql.fetchval(LOOKED)


async def test_a_queue_that_is_deleted_under_load_is_made_again(engine: Engine, sql: Sql) -> None:
    await push_each(engine, "a", "b")
    callers = [asyncio.create_task(push(engine, number, partition="ab"[number % 2])) for number in range(50)]
    await sql.execute("delete from queen.queues")
    await asyncio.gather(*callers)
    await sql.execute("delete from queen.queues")
    assert await push_each(engine, "a", "b") == [1, 1]
    assert await stored(sql, partition="a") == [(1, 1)]


async def test_two_engines_know_the_same_partitions(engine: Engine, other: Engine, sql: Sql) -> None:
    both = (engine, other)
    for _ in range(3):
        await asyncio.gather(
            *(push(both[number % 2], number, partition="abc"[number % 3]) for number in range(60)),
        )
    for name in "abc":
        assert [seq for seq, _ in await stored(sql, partition=name)] == list(range(1, 61))


async def test_so_many_are_known_and_no_more(engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "_NAMES", 10)
    names = [f"p{number}" for number in range(12)]
    await push_each(engine, *names)
    await push_each(engine, "p0")
    assert set(engine._pusher._ids) == {("q", "p0")}
    assert await push_each(engine, *names) == [3] + [2] * 11


async def test_the_callers_own_list_stays_as_it_was(engine: Engine) -> None:
    items = [message(1), message(2)]
    await engine.push(items)
    await engine.push(items, careful=True)
    await engine.transaction(items)
    assert [item.id for item in items] == [None, None]
