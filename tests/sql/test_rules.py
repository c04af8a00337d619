"""The concurrency rules R1 to R14: each has a check that holds, and that notices when the rule is taken out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.sql.mutation import plant
from tests.support.wait import eventually
from tests.support.work import WAITS_FOR_A_LOCK, Sql, connect

LEASE = "00000000-0000-7000-8000-{:012x}"
PUSH = "select queen.push($1, $2, '1')"
POP = "select * from queen.pop_lanes($1, 'g', array[{batch}], array[1], array['{lease}']::uuid[]) where request = 1"
ACK = "select status from queen.ack_leases(array[$1::bigint], array['g'], array[$2::uuid], array[$3::bigint])"
MANY = """
select item, status from queen.push_messages(
    $1::text[], $2::text[], $3::int[], array_fill(0, array[cardinality($1::text[])]),
    array(select gen_random_uuid() from unnest($1::text[])), array(select '1'::jsonb from unnest($1::text[])),
    p_call => $3::int[], p_wait => false)
"""


async def register(sql: Sql, queue: str = "q", group: str = "g") -> None:
    await sql.fetchval("select queen.subscribe($1, $2, 'all', null)", queue, group)
    while await sql.fetchval("select queen.fill_subscription($1, $2)", queue, group):
        pass


async def pop(sql: Sql, number: int = 1, queue: str = "q", batch: int = 1) -> list[Any]:
    return list(await sql.fetch(POP.format(lease=LEASE.format(number), batch=batch), queue))


async def pages(sql: Sql, statement: str) -> int:
    top = json.loads(await sql.fetchval(f"explain (analyze, buffers, timing off, format json) {statement}"))[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


async def r1_seq_is_handed_out_under_the_lock(dsn: str) -> None:
    async with connect(dsn) as one, connect(dsn) as two:
        await one.fetchval(PUSH, "q", "p")
        await one.execute("begin")
        await one.fetchval(PUSH, "q", "p")
        second = asyncio.create_task(two.fetchval(PUSH, "q", "p"))
        await eventually(lambda: one.fetchval(WAITS_FOR_A_LOCK))
        await one.execute("commit")
        await second
        assert [row["seq"] for row in await one.fetch("select seq from queen.messages order by seq")] == [1, 2, 3]


async def r2_drained_is_decided_under_the_lock(dsn: str) -> None:
    async with connect(dsn) as consumer, connect(dsn) as producer:
        await producer.fetchval(PUSH, "q", "p")
        await register(consumer)
        [first] = await pop(consumer)
        await producer.execute("begin")
        await producer.fetchval(PUSH, "q", "p")
        await consumer.fetchval(ACK, first["partition_id"], LEASE.format(1), first["first_seq"])
        await producer.execute("commit")

        async def found() -> bool:
            return [row["first_seq"] for row in await pop(consumer, 2)] == [2]

        ready = "select bool_and(ready_at is not null) from queen.partition_consumers where consumer_group = 'g'"
        assert await consumer.fetchval(ready), "nothing would ever find it"
        await eventually(found)


async def r3_a_lower_delay_frees_what_waits(dsn: str) -> None:
    async with connect(dsn) as sql:
        await sql.fetch("select queen.configure('q', '{\"delayed_processing\": 3600}')")
        await register(sql)
        await sql.fetchval(PUSH, "q", "p")
        assert await pop(sql) == []
        await sql.fetch("select queen.configure('q', '{\"delayed_processing\": 0}')")
        assert len(await pop(sql, 2)) == 1


async def r4_an_old_snapshot_loses_no_wake_up(dsn: str) -> None:
    async with connect(dsn) as old, connect(dsn) as sql:
        await sql.fetchval(PUSH, "q", "p")
        await register(sql)
        [first] = await pop(sql)
        await old.execute("begin isolation level repeatable read; select count(*) from queen.partition_consumers")
        await sql.fetchval(ACK, first["partition_id"], LEASE.format(1), first["first_seq"])
        with pytest.raises(asyncpg.SerializationError):
            await old.fetchval(PUSH, "q", "p")


async def r5_a_new_partition_and_a_new_group_do_not_miss_each_other(dsn: str) -> None:
    async with connect(dsn) as producer, connect(dsn, lock_timeout="200ms") as consumer:
        await producer.fetchval(PUSH, "q", "old")
        await producer.execute("begin")
        await producer.fetchval(PUSH, "q", "new")
        try:
            await register(consumer)
        except asyncpg.LockNotAvailableError:
            await producer.execute("commit")
            await register(consumer)
        else:
            await producer.execute("commit")
        seen = {row["partition_name"] for number in (1, 2) for row in await pop(consumer, number)}
        assert seen == {"old", "new"}


async def r6_a_held_partition_is_busy_for_its_callers_only(dsn: str) -> None:
    async with connect(dsn) as holder, connect(dsn, lock_timeout="500ms") as sql:
        for name in ("held", "free"):
            await sql.fetchval(PUSH, "q", name)
        await holder.execute("begin")
        await holder.fetchval(PUSH, "q", "held")
        try:
            rows = await sql.fetch(MANY, ["q", "q"], ["held", "free"], [1, 2])
        except asyncpg.LockNotAvailableError:
            pytest.fail("one caller's busy partition held up the others")
        assert {row["item"]: row["status"] for row in rows} == {1: "busy", 2: "queued"}


async def r7_the_time_is_an_index_condition(dsn: str) -> None:
    async with connect(dsn) as sql:
        await sql.execute("select queen.push('q', 'p' || i, '1') from generate_series(1, 1500) i")
        await register(sql)
        await sql.execute("update queen.partition_consumers set ready_at = now() + (1 + random()) * interval '1 hour'")
        await sql.execute("vacuum analyze queen.partition_consumers")
        statement = f"select * from queen.pop_lanes('q', 'g', array[1], array[1], array['{LEASE.format(1)}']::uuid[])"
        await pages(sql, statement)
        assert await pages(sql, statement) < 200, "a pop walks every leased lane"


async def r8_a_pop_starts_where_retention_left_off(dsn: str) -> None:
    async with connect(dsn) as sql:
        for _ in range(3):
            await sql.fetchval(PUSH, "q", "p")
        await register(sql)
        partition = await sql.fetchval("select id from queen.partitions where name = 'p'")
        await sql.fetchval("select queen.remove_ranges(array[$1::bigint], array[2], array[2], now())", partition)
        assert await sql.fetchval("select current_depth from queen.queue_depths where queue_name = 'q'") == 1
        assert [row["first_seq"] for row in await pop(sql, batch=10)] == [3]


async def r9_a_duplicate_inside_one_call_does_not_fail_it(dsn: str) -> None:
    async with connect(dsn) as sql:
        statement = (
            "select status, message_id from queen.push_messages(array['q'], array['p'], null, null,"
            " array[gen_random_uuid(), gen_random_uuid()], array['1', '2']::jsonb[], array['t', 't'],"
            " p_careful => true)"
        )
        try:
            rows = await sql.fetch(statement)
        except asyncpg.UniqueViolationError:
            pytest.fail("a duplicate failed the call")
        assert [row["status"] for row in rows] == ["queued", "duplicate"]
        assert rows[0]["message_id"] == rows[1]["message_id"]


async def r10_a_late_ack_counts_while_its_token_is_there(dsn: str) -> None:
    async with connect(dsn) as sql:
        await sql.fetchval(PUSH, "q", "p")
        await register(sql)
        [first] = await pop(sql)
        await sql.execute("update queen.partition_consumers set lease_expires_at = now() - interval '1 minute'")
        assert await sql.fetchval(ACK, first["partition_id"], LEASE.format(1), first["first_seq"]) == "acked"


async def r11_a_limit_counts_what_is_not_committed_yet(dsn: str) -> None:
    async with connect(dsn) as one, connect(dsn, lock_timeout="200ms") as two:
        await one.fetch("select queen.configure('q', '{\"max_queue_size\": 10}')")
        await one.execute("begin")
        await one.execute("select queen.push('q', 'a', '1') from generate_series(1, 8)")
        refused = 0
        for number in range(8):
            try:
                await two.fetchval(PUSH, "q", f"b{number}")
            except asyncpg.PostgresError:
                refused += 1
        await one.execute("commit")
        assert await one.fetchval("select current_depth from queen.queue_depths where queue_name = 'q'") <= 10
        assert refused


async def r12_a_pop_that_gave_up_says_again(dsn: str) -> None:
    async with connect(dsn) as sql:
        for number in range(12):
            await sql.fetchval(PUSH, "q", f"stale{number}")
        await sql.fetchval(PUSH, "q", "real")
        await register(sql)
        await sql.execute(
            "update queen.partition_consumers c set last_consumed_seq = 1, ready_at = now() - interval '1 hour'"
            " from queen.partitions p where p.id = c.partition_id and p.name like 'stale%'"
        )
        for number in range(1, 20):
            rows = await sql.fetch(
                f"select * from queen.pop_lanes('q', 'g', array[1], array[1], array['{LEASE.format(number)}']::uuid[])"
            )
            if len(rows) > 1:
                assert rows[1]["partition_name"] == "real"
                return
            assert rows[0]["state"] == "again", "a long poll would sleep on waiting work"
        pytest.fail("the work was never found")


async def r13_nothing_outlives_a_transaction(dsn: str) -> None:
    async with connect(dsn) as sql:
        await sql.fetchval(PUSH, "q", "p")
        locks = await sql.fetchval(
            "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        )
        assert locks == 0
        assert not await sql.fetchval("select current_setting('queen.announced', true)")


async def r14_plans_made_on_empty_tables_stay_good(dsn: str) -> None:
    async with connect(dsn) as sql:
        statement = (
            "select * from queen.push_messages(array['q'], array['p7'], null, null, array[gen_random_uuid()],"
            " array['1']::jsonb[], array[gen_random_uuid()::text])"
        )
        await sql.fetch(statement)
        await sql.execute("vacuum analyze queen.queues, queen.partitions, queen.partition_consumers, queen.messages")
        for _ in range(8):
            await sql.fetch(statement)
        before = await pages(sql, statement)
        await sql.execute(
            "insert into queen.partitions (queue_id, name)"
            " select id, 'x' || i from queen.queues, generate_series(1, 20000) i"
        )
        assert await pages(sql, statement) <= before * 1.5 + 20, "a plan for an empty table is used on a large one"


# Each check, and the defect that takes the rule out.
RULES: dict[Callable[[str], Awaitable[None]], str] = {
    r1_seq_is_handed_out_under_the_lock: "seq-without-the-partition-lock",
    r2_drained_is_decided_under_the_lock: "drained-decided-without-the-lock",
    r3_a_lower_delay_frees_what_waits: "a-lower-delay-frees-nothing",
    r4_an_old_snapshot_loses_no_wake_up: "an-old-snapshot-is-not-guarded",
    r5_a_new_partition_and_a_new_group_do_not_miss_each_other: "new-partition-misses-new-group",
    r6_a_held_partition_is_busy_for_its_callers_only: "a-held-partition-blocks-the-call",
    r7_the_time_is_an_index_condition: "time-is-a-filter",
    r8_a_pop_starts_where_retention_left_off: "retention-leaves-first-seq",
    r9_a_duplicate_inside_one_call_does_not_fail_it: "duplicate-in-one-call-fails-it",
    r10_a_late_ack_counts_while_its_token_is_there: "a-late-ack-is-refused",
    r11_a_limit_counts_what_is_not_committed_yet: "credit-is-not-taken",
    r12_a_pop_that_gave_up_says_again: "a-pop-that-gave-up-says-ok",
    r13_nothing_outlives_a_transaction: "announcements-outlive-transactions",
    r14_plans_made_on_empty_tables_stay_good: "plans-are-not-pinned",
}


def name_of(rule: Callable[[str], Awaitable[None]]) -> str:
    return rule.__name__


@pytest.mark.parametrize("rule", RULES, ids=name_of)
async def test_the_rule_holds(database: str, rule: Callable[[str], Awaitable[None]]) -> None:
    await rule(database)


@pytest.mark.parametrize("rule", RULES, ids=name_of)
async def test_without_the_rule_the_check_fails(database: str, rule: Callable[[str], Awaitable[None]]) -> None:
    plant(database, RULES[rule])
    with pytest.raises((AssertionError, asyncpg.PostgresError, pytest.fail.Exception)):
        await rule(database)
