"""Flat cost: a verb touches as many pages at depth as on a small queue, and never scans a table.

Counted in pages of the whole call, so a plan that starts to scan inside any function shows. Times are for `make bench`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.support.work import Sql, connect

LOAD = """
with q as (insert into queen.queues (name) values ($1) returning id), made as (
    insert into queen.partitions (queue_id, name, next_seq, last_created_at)
    select q.id, 'p' || i, $3::bigint / $2::bigint + 1, now() from q, generate_series(1, $2::bigint) i
    returning id, next_seq
)
insert into queen.messages (partition_id, seq, pos, id, created_at, transaction_id, payload)
select made.id, s, nextval('queen.message_pos'), gen_random_uuid(), now(), 'm' || s, '{"n": 1}'
  from made, generate_series(1, made.next_seq - 1) s
"""
CONSUME = """
update queen.partition_consumers c
   set last_consumed_seq = floor((p.next_seq - 1) * $2::float8), ready_at = now() - interval '1 minute'
  from queen.partitions p join queen.queues q on q.id = p.queue_id where c.partition_id = p.id and q.name = $1
"""
PUSH = """
select * from queen.push_messages(array['{queue}'], array['p1'], null, null,
    array(select gen_random_uuid() from generate_series(1, 10)), array(select '1'::jsonb from generate_series(1, 10)),
    array(select gen_random_uuid()::text from generate_series(1, 10)))
"""
PUSH_KNOWN = """
select * from queen.push_messages(array['{queue}', '{queue}'], array['p1', 'p2'],
    array[1, 1, 1, 1, 1, 2, 2, 2, 2, 2], array[0, 1, 2, 3, 4, 0, 1, 2, 3, 4],
    array(select gen_random_uuid() from generate_series(1, 10)), array(select '1'::jsonb from generate_series(1, 10)),
    array(select gen_random_uuid()::text from generate_series(1, 10)), p_wait => false, p_create => false,
    p_ids => array{ids})
"""
IDS = """
select p.id from queen.partitions p join queen.queues q on q.id = p.queue_id
 where q.name = $1 and p.name in ('p1', 'p2') order by p.name
"""
POP = """
select * from queen.pop_lanes('{queue}', '{group}', array[2], array[1], array['{lease}']::uuid[])
"""
ACK = """
select * from queen.ack_leases(array[{partition}], array['{group}'], array['{lease}']::uuid[], array[{seq}])
"""
LEASE = "00000000-0000-7000-8000-{:012x}"
SCANS = "select coalesce(sum(seq_scan), 0) from pg_stat_xact_user_tables where schemaname = 'queen'"
CALLS = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions"


@dataclass(frozen=True)
class Case:
    """A queue of some size."""

    messages: int
    partitions: int
    consumed: float = 0.0
    groups: int = 1


SMALL = Case(1_000, 100)
LARGE = {
    "deep": Case(60_000, 100),
    "half consumed": Case(60_000, 100, 0.5),
    "nearly consumed": Case(60_000, 100, 0.99),
    "many partitions": Case(20_000, 5_000),
    "twelve groups": Case(1_000, 100, 0.0, 12),
}


@pytest.fixture
async def sql(database: str) -> AsyncIterator[Sql]:
    async with connect(database, track_functions="all") as connection:
        yield connection


async def load(sql: Sql, queue: str, case: Case) -> None:
    await sql.fetch(LOAD, queue, case.partitions, case.messages)
    for number in range(case.groups):
        await sql.fetchval("select queen.subscribe($1, $2, 'all', null)", queue, f"g{number}")
        while await sql.fetchval("select queen.fill_subscription($1, $2)", queue, f"g{number}"):
            pass
    await sql.fetch(CONSUME, queue, case.consumed)
    await sql.execute("vacuum analyze queen.messages, queen.partitions, queen.partition_consumers")


async def touched(sql: Sql, statement: str) -> tuple[int, int, int]:
    """Pages a statement touches, tables it scans, and functions it calls."""
    async with sql.transaction():
        scans, calls = await sql.fetchval(SCANS), await sql.fetchval(CALLS)
        plan = await sql.fetchval(f"explain (analyze, buffers, timing off, format json) {statement}")
        top = json.loads(plan)[0]["Plan"]
        pages = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
        return pages, await sql.fetchval(SCANS) - scans, await sql.fetchval(CALLS) - calls


async def cost(sql: Sql, queue: str) -> dict[str, tuple[int, int, int]]:
    """The third of three calls of each verb: plans are cached and catalogues read by then."""
    costs: dict[str, tuple[int, int, int]] = {}
    ids = [row["id"] for row in await sql.fetch(IDS, queue)]
    for turn in range(3):
        lease = LEASE.format(turn + 1)
        costs["push"] = await touched(sql, PUSH.format(queue=queue))
        costs["push to known partitions"] = await touched(sql, PUSH_KNOWN.format(queue=queue, ids=ids))
        costs["pop"] = await touched(sql, POP.format(queue=queue, group="g0", lease=lease))
        lane = await sql.fetchrow(
            "select partition_id, batch_to from queen.partition_consumers where lease_id = $1::uuid", lease
        )
        assert lane is not None
        statement = ACK.format(partition=lane["partition_id"], group="g0", lease=lease, seq=lane["batch_to"])
        costs["ack"] = await touched(sql, statement)
    return costs


@pytest.mark.parametrize("name", LARGE)
async def test_a_verb_costs_the_same_at_any_size(sql: Sql, name: str) -> None:
    await load(sql, "small", SMALL)
    await load(sql, "large", LARGE[name])
    small, large = await cost(sql, "small"), await cost(sql, "large")
    for verb, (pages, scans, calls) in large.items():
        assert scans == 0, f"{verb} scans a table"
        assert calls == small[verb][2], f"{verb} does more at this size"
        assert pages <= small[verb][0] * 1.2 + 4, f"{verb} touches {pages} pages instead of {small[verb][0]}"


async def test_fresh_tables_get_the_same_plans(sql: Sql) -> None:
    """Plans made on empty tables must still be good when the tables have grown (R14)."""
    await load(sql, "first", Case(100, 10))
    await cost(sql, "first")
    await load(sql, "large", LARGE["many partitions"])
    grown = await cost(sql, "large")
    await sql.execute("discard plans")
    warm = await cost(sql, "large")
    for verb, (pages, scans, _) in grown.items():
        assert scans == 0
        assert pages <= warm[verb][0] * 1.2 + 4


async def test_the_guard_notices_a_lost_index(sql: Sql) -> None:
    await load(sql, "small", SMALL)
    await load(sql, "large", LARGE["many partitions"])
    await sql.execute("drop index queen.consumers_by_ready")
    small, large = await cost(sql, "small"), await cost(sql, "large")
    assert large["pop"][0] > small["pop"][0] * 1.2 + 4
