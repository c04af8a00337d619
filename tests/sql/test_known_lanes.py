"""Pushes that bring along what they remember as the ids of their partitions: it saves work and is never believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.support.wait import eventually
from tests.support.work import WAITS_FOR_A_LOCK, Sql, connect

LANES = [("a", "1"), ("a", "2"), ("b", "1")]
STORE = """
select lane, item, status, partition_id, seq, queue_id, woken from queen.push_messages(
    $1::text[], $2::text[],
    array(select generate_subscripts($1::text[], 1)), array_fill(0, array[cardinality($1::text[])]),
    array(select gen_random_uuid() from unnest($1::text[])), array(select '1'::jsonb from unnest($1::text[])),
    p_call => array(select generate_subscripts($1::text[], 1)), p_wait => $4, p_create => $5, p_ids => $3)
"""
HELD = """
select q.name as queue, p.name as partition, p.id, p.next_seq,
       (select count(*) from queen.messages m where m.partition_id = p.id) as held
  from queen.partitions p join queen.queues q on q.id = p.queue_id order by p.id
"""
LOOKED = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname = 'lock_heads'"


@pytest.fixture
async def sql(database: str) -> AsyncIterator[Sql]:
    """A connection to a database with a message in each lane; it counts the calls of functions."""
    async with connect(database, track_functions="all", statement_timeout="10s") as connection:
        await store(connection, LANES, None, create=True)
        yield connection


async def store(
    sql: Sql, lanes: list[tuple[str, str]], ids: list[Any] | None, *, wait: bool = False, create: bool = False
) -> list[Any]:
    queues, partitions = [queue for queue, _ in lanes], [partition for _, partition in lanes]
    return list(await sql.fetch(STORE, queues, partitions, ids, wait, create))


async def looked(
    sql: Sql, lanes: list[tuple[str, str]], ids: list[Any], *, wait: bool = False, create: bool = False
) -> bool:
    """Whether a push had to look for its lanes."""
    async with sql.transaction():
        before = await sql.fetchval(LOOKED)
        await store(sql, lanes, ids, wait=wait, create=create)
        return bool(await sql.fetchval(LOOKED) > before)


async def ids_of(sql: Sql) -> list[int]:
    return [row["id"] for row in await sql.fetch(HELD)]


async def held(sql: Sql) -> list[tuple[str, str, int]]:
    """How many messages each partition holds; all of them are below its next seq."""
    rows = await sql.fetch(HELD)
    assert all(row["next_seq"] == row["held"] + 1 for row in rows)
    return [(row["queue"], row["partition"], row["held"]) for row in rows]


async def test_what_is_remembered_rightly_is_not_looked_for(sql: Sql) -> None:
    ids = await ids_of(sql)
    assert not await looked(sql, LANES, ids)
    assert await held(sql) == [(*lane, 2) for lane in LANES]
    rows = await store(sql, LANES, ids)
    assert [(row["lane"], row["status"], row["partition_id"], row["seq"]) for row in rows] == [
        (place, "queued", found, 3) for place, found in enumerate(ids, 1)
    ]


async def test_lanes_with_nothing_waiting_are_woken(sql: Sql) -> None:
    for queue in ("a", "b"):
        await sql.fetchval("select queen.subscribe($1, 'g', 'all', null)", queue)
        while await sql.fetchval("select queen.fill_subscription($1, 'g')", queue):
            pass
    await sql.execute("update queen.queues set delayed_processing = 3600 where name = 'b'")
    ids = await ids_of(sql)
    await sql.execute("update queen.partition_consumers set ready_at = null where partition_id <> $1", ids[1])
    assert [row["woken"] for row in await store(sql, LANES, ids)] == [True, False, True]
    due = "select ready_at > now() + interval '50 minutes' from queen.partition_consumers order by partition_id"
    assert [row[0] for row in await sql.fetch(due)] == [False, False, True]


@pytest.mark.parametrize(
    "wrong",
    ["another", "mixed up", "descending", "too few", "too many", "null", "none at all", "nobody's", "twice"],
)
async def test_what_is_remembered_wrongly_changes_nothing(sql: Sql, wrong: str) -> None:
    await store(sql, [("b", "2")], None, create=True)
    ids: list[int | None] = [*await ids_of(sql)]
    remembered = {
        "another": [ids[0], ids[1], ids[3]],
        "mixed up": [ids[1], ids[2], ids[3]],
        "descending": [ids[2], ids[1], ids[0]],
        "too few": ids[:2],
        "too many": ids,
        "null": [ids[0], ids[1], None],
        "none at all": [],
        "nobody's": [ids[0], ids[1], 10**9],
        "twice": [ids[0], ids[1], ids[1]],
    }[wrong]
    assert await looked(sql, LANES, remembered)
    assert await held(sql) == [*((*lane, 2) for lane in LANES), ("b", "2", 1)]


async def test_a_partition_made_again_is_another_one(sql: Sql) -> None:
    ids = await ids_of(sql)
    await sql.execute("delete from queen.partitions where id = $1", ids[1])
    assert [row["status"] for row in await store(sql, LANES, ids)] == ["queued", "absent", "queued"]
    await store(sql, [LANES[1]], None, create=True)
    assert [row["status"] for row in await store(sql, LANES, ids)] == ["queued"] * 3
    assert sorted(await held(sql)) == [("a", "1", 3), ("a", "2", 2), ("b", "1", 3)]


async def test_a_queue_renamed_by_hand_keeps_its_partitions(sql: Sql) -> None:
    ids = await ids_of(sql)
    await sql.execute("update queen.queues set name = 'c' where name = 'b'")
    assert [row["status"] for row in await store(sql, LANES, ids)] == ["queued", "queued", "absent"]
    await store(sql, [("b", "1")], None, create=True)
    await store(sql, LANES, ids)
    assert sorted(await held(sql)) == [("a", "1", 3), ("a", "2", 3), ("b", "1", 2), ("c", "1", 1)]


async def test_a_limit_counts(sql: Sql) -> None:
    ids = await ids_of(sql)
    await sql.fetchval("select queen.configure('a', '{\"max_queue_size\": 3}')")
    assert [row["status"] for row in await store(sql, LANES, ids)] == ["queued", "full", "queued", "depth"]
    assert (await held(sql))[:3] == [("a", "1", 2), ("a", "2", 1), ("b", "1", 2)]


async def test_a_queue_that_takes_sealed_payloads_takes_no_others(sql: Sql) -> None:
    ids = await ids_of(sql)
    await sql.fetchval("select queen.configure('b', '{\"encryption_enabled\": true}')")
    with pytest.raises(asyncpg.PostgresError, match="encrypt"):
        await store(sql, LANES, ids)
    assert (await held(sql))[:3] == [(*lane, 1) for lane in LANES]


async def test_a_held_partition_is_busy_for_its_callers_only(sql: Sql, database: str) -> None:
    ids = await ids_of(sql)
    async with connect(database) as other, other.transaction():
        await other.fetchval("select queen.push('a', '2', '7')")
        assert [row["status"] for row in await store(sql, LANES, ids)] == ["queued", "busy", "queued"]
    assert await held(sql) == [(*lane, 2) for lane in LANES]


async def test_who_waits_looks_and_waits(sql: Sql, database: str) -> None:
    """Whoever may wait, for a lock or for a new partition, takes all locks in the order of ids."""
    ids = await ids_of(sql)
    assert await looked(sql, LANES, ids, wait=True)
    assert await looked(sql, LANES, ids, create=True)
    async with connect(database) as other:
        async with other.transaction():
            await other.fetchval("select queen.push('a', '2', '7')")
            waiting = asyncio.create_task(store(sql, LANES, ids, wait=True))
            await eventually(lambda: other.fetchval(WAITS_FOR_A_LOCK))
            assert not waiting.done()
        assert [row["status"] for row in await waiting] == ["queued"] * 3


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_an_old_snapshot_looks(sql: Sql, isolation: str) -> None:
    ids = await ids_of(sql)
    await sql.execute(f"set default_transaction_isolation = '{isolation}'")
    assert await looked(sql, LANES, ids)
    assert await held(sql) == [(*lane, 2) for lane in LANES]


async def test_many_queues_at_once(sql: Sql) -> None:
    lanes = [(f"many{number:03}", "p") for number in range(100)]
    await store(sql, lanes, None, create=True)
    ids = {(row["queue"], row["partition"]): row["id"] for row in await sql.fetch(HELD)}
    lanes.sort(key=ids.__getitem__)
    for count, looking in ((32, False), (33, True), (100, True)):
        some = lanes[:count]
        assert await looked(sql, some, [ids[lane] for lane in some]) is looking
    found = {(queue, partition): count for queue, partition, count in await held(sql)}
    assert [found[lane] for lane in lanes] == [4] * 32 + [3] + [2] * 67


async def test_places_are_those_of_the_newest_rows(sql: Sql, database: str) -> None:
    """Many connections push to the same partitions: whichever version a lock meets, the head goes up."""
    ids = await ids_of(sql)

    async def produce() -> int:
        stored = 0
        async with connect(database) as own:
            while stored < 60:
                stored += sum(row["status"] == "queued" for row in await store(own, LANES, ids))
        return stored

    stored = sum(await asyncio.gather(*(produce() for _ in range(6))))
    assert sum(count for *_, count in await held(sql)) == stored + 3
