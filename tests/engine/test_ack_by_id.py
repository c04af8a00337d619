"""Acknowledgements by ids that the server made up and no index knows: their cost goes with their number."""

from __future__ import annotations

from uuid import uuid4

import pytest

from queen.engine import Engine
from queen.model import Ack, Message
from tests.support.work import Sql, dead, lane, numbers, pop, push

READ = (
    "select (seq_tup_read + idx_tup_fetch)::int from pg_stat_xact_user_tables where relid = 'queen.messages'::regclass"
)
ACK = """
select status, dead from queen.ack_messages(
    array_fill(1, array[$4::int]), array_fill($1::bigint, array[$4::int]), array_fill($2::text, array[$4::int]),
    array_fill($3::uuid, array[$4::int]), $5::text[], array_fill(null::bigint, array[$4::int]), $6::text[],
    array_fill(null::text, array[$4::int]))
 order by item
"""


async def rows_read(sql: Sql, got: list[Message], names: list[str], statuses: list[str]) -> tuple[int, list[str]]:
    """How many messages the call read, and what it answered."""
    async with sql.transaction():
        before = await sql.fetchval(READ) or 0
        rows = await sql.fetch(
            ACK, got[0].partition_id, got[0].group, got[0].lease_id, len(names), names, statuses
        )  # fmt: skip
        return await sql.fetchval(READ) - before, [row["status"] for row in rows]


@pytest.mark.parametrize("failed", [1, 2000])
async def test_each_message_is_read_a_few_times(engine: Engine, sql: Sql, failed: int) -> None:
    await push(engine, *range(2000))
    got = await pop(engine, 2000)
    statuses = ["failed"] * failed + ["completed"] * (2000 - failed)
    read, verdicts = await rows_read(sql, got, [message.transaction_id for message in got], statuses)
    assert set(verdicts) == {"acked"}
    assert read < 4 * 2000
    assert await dead(sql) == ([0] if failed == 1 else [])


async def test_ids_that_no_lease_knows_are_looked_for_once(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(2000))
    got = await pop(engine, 1)
    read, verdicts = await rows_read(sql, got, [str(uuid4()) for _ in range(500)], ["completed"] * 500)
    assert set(verdicts) == {"unknown"}
    assert read < 4 * 2000


async def test_a_message_behind_the_lease_is_found_by_the_time_of_its_id(engine: Engine, sql: Sql) -> None:
    pushed = await push(engine, *range(20))
    await pop(engine, 5)
    place = (await lane(sql))["partition_id"]
    (outcome,) = await engine.ack([Ack(partition_id=place, transaction_id=pushed[9].transaction_id)])
    assert (outcome.verdict, (await lane(sql))["last_consumed_seq"]) == ("acked", 10)
    assert numbers(await pop(engine)) == list(range(10, 20))
