from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queen import errors
from queen.db.pool import PoolOptions
from queen.engine import Engine
from queen.ids import uuid7
from queen.model import NewMessage
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import WAITS_FOR_A_LOCK, Sql, connect, message, numbers, pop, push, stored


async def test_a_push_creates_queue_and_partition(engine: Engine, sql: Sql) -> None:
    (pushed,) = await push(engine, 1, queue="sales.orders", partition="eu")
    assert (pushed.status, pushed.seq, pushed.queue, pushed.partition) == ("queued", 1, "sales.orders", "eu")
    assert pushed.transaction_id == str(pushed.id)
    row = await sql.fetchrow("select namespace, task from queen.queues where name = 'sales.orders'")
    assert row is not None
    assert (row["namespace"], row["task"]) == ("sales", "orders")


async def test_seqs_count_up_per_partition(engine: Engine, sql: Sql) -> None:
    pushed = await engine.push([message(n, partition="ab"[n % 2]) for n in range(6)])
    assert [p.seq for p in pushed] == [1, 1, 2, 2, 3, 3]
    assert [p.partition for p in pushed] == list("ababab")
    assert await stored(sql, partition="a") == [(1, 0), (2, 2), (3, 4)]
    assert (await push(engine, 6, partition="a"))[0].seq == 4


async def test_each_head_goes_up_by_what_its_partition_got(engine: Engine, sql: Sql) -> None:
    """Partitions are locked in the order of their ids, whatever the order they come in."""
    for name in "abc":
        await push(engine, 0, partition=name)
    await engine.push([message(n, partition=name) for name in "cab" for n in range(50 * "abc".index(name))])
    heads = "select next_seq from queen.partitions where name = any ('{a,b,c}') order by name"
    assert [row["next_seq"] for row in await sql.fetch(heads)] == [2, 52, 102]
    assert [len(await stored(sql, partition=name)) for name in "abc"] == [1, 51, 101]


async def test_no_items_is_no_call(engine: Engine) -> None:
    assert await engine.push([]) == []


@pytest.mark.parametrize("count", [3, 20, 200])
async def test_the_same_transaction_id_is_stored_once(engine: Engine, sql: Sql, count: int) -> None:
    items = [message(n, transaction_id=f"t{n}") for n in range(count)]
    first = await engine.push(items)
    again = await engine.push(items)
    assert {p.status for p in first} == {"queued"}
    assert {p.status for p in again} == {"duplicate"}
    assert [p.id for p in again] == [p.id for p in first]
    assert [p.seq for p in again] == [p.seq for p in first]
    assert len(await stored(sql)) == count


async def test_the_same_transaction_id_in_another_partition_is_another_message(engine: Engine) -> None:
    first, other = await engine.push(
        [message(1, partition="a", transaction_id="t"), message(1, partition="b", transaction_id="t")]
    )
    assert (first.status, other.status) == ("queued", "queued")


@pytest.mark.parametrize("count", [2, 40])
async def test_duplicates_inside_one_call(engine: Engine, sql: Sql, count: int) -> None:
    """R9: the first wins, the later ones say so, and nothing fails."""
    pushed = await engine.push([message(n, transaction_id=f"t{n // 2}") for n in range(2 * count)])
    assert [p.status for p in pushed] == ["queued", "duplicate"] * count
    assert [p.id for p in pushed[1::2]] == [p.id for p in pushed[::2]]
    assert [p.seq for p in pushed[::2]] == list(range(1, count + 1))
    assert len(await stored(sql)) == count


async def test_new_messages_beside_duplicates_have_no_holes(engine: Engine, sql: Sql) -> None:
    await engine.push([message(n, transaction_id=f"t{n}") for n in range(0, 100, 2)])
    pushed = await engine.push([message(n, transaction_id=f"t{n}") for n in range(100)])
    assert [p.status for p in pushed] == ["duplicate", "queued"] * 50
    assert [seq for seq, _ in await stored(sql)] == list(range(1, 101))


async def test_everything_given_comes_back(engine: Engine) -> None:
    trace, parent, own = uuid7(), uuid7(), uuid7()
    sent = NewMessage(
        queue="q", partition="p", payload='{"a": [1, "é", null]}', transaction_id="t", trace_id=trace, parent_id=parent,
        producer_sub="joe", id=own,
    )  # fmt: skip
    (pushed,) = await engine.push([sent])
    (got,) = await pop(engine)
    assert (pushed.id, pushed.trace_id) == (own, trace)
    assert (got.id, got.trace_id, got.parent_id, got.producer_sub, got.transaction_id) == (
        own,
        trace,
        parent,
        "joe",
        "t",
    )
    assert got.payload == '{"a": [1, "é", null]}'


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (NewMessage(queue="x" * 513, payload="1"), "INVALID_QUEUE"),
        (NewMessage(queue="a\0b", payload="1"), "INVALID_QUEUE"),
        (NewMessage(queue="q", partition="é" * 257, payload="1"), "INVALID_PARTITION"),
        (NewMessage(queue="q", payload="1", transaction_id=""), "INVALID_TRANSACTION_ID"),
        (NewMessage(queue="q", payload="1", transaction_id="x" * 256), "INVALID_TRANSACTION_ID"),
        (NewMessage(queue="q", payload="1", producer_sub="\0"), "INVALID_PRODUCER_SUB"),
        (NewMessage(queue="q", payload="{"), "INVALID_PAYLOAD"),
        (NewMessage(queue="q", payload='"\\u0000"'), "INVALID_PAYLOAD"),
    ],
)
async def test_what_cannot_be_stored_is_refused(engine: Engine, sql: Sql, item: NewMessage, code: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        await engine.push([message(1), item])
    assert refused.value.code == code
    assert await sql.fetchval("select count(*) from queen.messages") == 0


async def test_the_longest_names_work(engine: Engine) -> None:
    item = NewMessage(queue="q" * 512, partition="é" * 256, payload="1", transaction_id="😀" * 255)
    (pushed,) = await engine.push([item])
    (got,) = await pop(engine, queue="q" * 512)
    assert pushed.transaction_id == got.transaction_id == "😀" * 255


async def test_created_at_never_goes_back(engine: Engine, sql: Sql, clock: Clock) -> None:
    """R7: also when the clock of the server does."""
    await push(engine, 1)
    await clock.advance(-3600)
    await push(engine, 2)
    await engine.push([message(n, transaction_id=f"t{n}") for n in (3, 3)])
    times = [row["created_at"] for row in await sql.fetch("select created_at from queen.messages order by seq")]
    assert len(times) == 3
    assert times == sorted(times)


async def test_a_repeated_attempt_finds_what_the_first_one_left(engine: Engine, sql: Sql) -> None:
    """After an unknown outcome the ids are looked up before anything is stored again."""
    ids = [uuid7() for _ in range(3)]
    arguments = (["q"], ["p"], [1, 1, 1], [0, 1, 2], ids, ["1", "2", "3"])
    call = "select * from queen.push_messages($1, $2, $3, $4, $5, $6, p_careful => true)"
    await sql.execute("select set_config('search_path', 'queen', false)")
    first = await sql.fetch(call, *arguments)
    again = await sql.fetch(call, *arguments)
    assert [row["status"] for row in first] == ["queued"] * 3
    assert [row["status"] for row in again] == ["duplicate"] * 3
    assert [row["seq"] for row in again] == [1, 2, 3]


async def test_a_connection_lost_in_a_shared_call_stores_nothing_twice(engine: Engine, sql: Sql) -> None:
    """The call commits, its answer is lost: every caller's message is there exactly once."""
    await push(engine, 0)
    # The trigger lets the statement commit and breaks the connection before its answer leaves.
    await sql.execute(
        "create function queen.cut() returns trigger language plpgsql as $$ begin"
        " if (select count(*) from new_rows) > 1 then perform pg_sleep(0.3); end if; return null; end $$;"
        "create trigger cut after insert on queen.messages referencing new table as new_rows"
        " for each statement execute function queen.cut()"
    )
    callers = [asyncio.create_task(push(engine, n)) for n in range(1, 20)]
    await lose_answer(engine, sql)
    pushed = [(await caller)[0] for caller in callers]
    kept = await stored(sql)
    assert sorted(n for _, n in kept) == list(range(20))
    assert sorted(p.seq or 0 for p in pushed) == list(range(2, 21))


async def lose_answer(engine: Engine, watch: Sql) -> None:
    """Close the engine's busy connections on our side, while the server finishes and commits."""
    sleeping = "select count(*) > 0 from pg_stat_activity where application_name = 'queen' and wait_event = 'PgSleep'"
    await eventually(lambda: watch.fetchval(sleeping))
    pool: Any = engine.database._pool
    for holder in pool._holders:
        if holder._in_use:
            holder._con._transport.abort()
    await eventually(lambda: watch.fetchval("select count(*) > 1 from queen.messages"))


async def test_a_held_partition_is_busy_and_holds_up_nobody_else(engine: Engine, sql: Sql, database: str) -> None:
    """R6, I5: in the same micro-batches."""
    await push(engine, 1, partition="held")
    await push(engine, 1, partition="free")
    async with connect(database) as other, other.transaction():
        await other.execute("select queen.push('q', 'held', '{\"n\": 2}')")
        waiting = asyncio.create_task(push(engine, 3, partition="held"))
        for number in range(2, 40):
            await asyncio.wait_for(push(engine, number, partition="free"), 20)
        assert not waiting.done()
    assert (await asyncio.wait_for(waiting, 10))[0].seq == 3


async def test_a_partition_held_too_long_is_partition_busy(database: str) -> None:
    async with (
        Engine.connect(database, options=PoolOptions(lock_timeout=0.5)) as engine,
        connect(database) as other,
    ):
        await push(engine, 1)
        async with other.transaction():
            await other.execute("select queen.push('q', 'p', '{\"n\": 2}')")
            for count in (1, 100):
                with pytest.raises(errors.PartitionBusy) as refused:
                    await asyncio.wait_for(push(engine, *range(count)), 10)
                assert (refused.value.code, refused.value.retryable) == ("PARTITION_BUSY", True)


async def test_a_new_partition_is_not_held_up_by_one_that_is_being_created(
    engine: Engine, sql: Sql, database: str
) -> None:
    await push(engine, 1, partition="old")
    async with connect(database) as other, other.transaction():
        await other.execute("select queen.push('q', 'unborn', '{\"n\": 1}')")
        waiting = asyncio.create_task(push(engine, 2, partition="unborn"))
        for number in range(5):
            await asyncio.wait_for(push(engine, number, partition=f"new{number}"), 20)
        assert not waiting.done()
    assert (await asyncio.wait_for(waiting, 10))[0].seq == 2


async def test_a_new_queue_is_not_held_up_by_one_that_is_being_created(engine: Engine, database: str) -> None:
    async with connect(database) as other, other.transaction():
        await other.execute("select queen.push('unborn', 'p', '{\"n\": 1}')")
        waiting = asyncio.create_task(push(engine, 2, queue="unborn"))
        for number in range(5):
            await asyncio.wait_for(push(engine, number, queue=f"new{number}"), 20)
        assert not waiting.done()
    assert (await asyncio.wait_for(waiting, 10))[0].seq == 2


async def test_sql_push_is_the_outbox(engine: Engine, sql: Sql) -> None:
    await sql.execute("create table public.orders (id int)")
    async with sql.transaction():
        await sql.execute("insert into public.orders values (1)")
        first = await sql.fetchval("select queen.push('q', 'p', '{\"n\": 1}', 'order-1')")
        again = await sql.fetchval("select queen.push('q', 'p', '{\"n\": 1}', 'order-1')")
        assert first == again
        assert await pop(engine) == []
    assert numbers(await pop(engine)) == [1]
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("select queen.push('q', 'p', '{\"n\": 2}')")
    await transaction.rollback()
    assert (await push(engine, 3))[0].seq == 2


async def test_sql_push_says_what_is_wrong(sql: Sql) -> None:
    for arguments, code in {
        "repeat('x', 513), 'p', '1'": "INVALID_QUEUE",
        "null, 'p', '1'": "INVALID_QUEUE",
        "'q', repeat('x', 513), '1'": "INVALID_PARTITION",
        "'q', 'p', '1', ''": "INVALID_TRANSACTION_ID",
        "'q', 'p', '1', repeat('x', 256)": "INVALID_TRANSACTION_ID",
    }.items():
        with pytest.raises(asyncpg.PostgresError) as refused:
            await sql.execute(f"select queen.push({arguments})")
        assert refused.value.detail == code


async def test_deliver_at_in_the_past_is_now(engine: Engine, clock: Clock) -> None:
    past, future = await clock.now() - timedelta(seconds=1), await clock.now() + timedelta(hours=1)
    pushed = await engine.push([message(1, deliver_at=past), message(2, deliver_at=future), message(3)])
    assert [p.status for p in pushed] == ["queued", "scheduled", "queued"]
    assert [p.seq for p in pushed] == [1, None, 2]
    assert numbers(await pop(engine)) == [1, 3]


@pytest.mark.parametrize("count", [1, 40])
async def test_a_transaction_id_is_unique_whoever_made_it(engine: Engine, sql: Sql, count: int) -> None:
    """The server's answer, used as a transaction id of one's own."""
    first = await push(engine, *range(count))
    again = await engine.push([message(n, transaction_id=one.transaction_id) for n, one in enumerate(first)])
    assert [(one.status, one.id, one.seq) for one in again] == [("duplicate", one.id, one.seq) for one in first]
    by_sql = await sql.fetchval("select queen.push('q', 'p', '1', $1)", first[0].transaction_id)
    assert by_sql == first[0].id
    assert await sql.fetchval("select count(*) from queen.messages") == count


async def test_a_transaction_id_made_up_in_sql_is_unique_too(engine: Engine, sql: Sql) -> None:
    made = await sql.fetchval("select queen.push('q', 'p', '{}')")
    (again,) = await push(engine, 1, transaction_id=str(made))
    assert (again.status, again.id) == ("duplicate", made)


async def test_an_id_of_the_callers_own_is_its_transaction_id(engine: Engine) -> None:
    own = UUID("0198c0de-0000-7000-8000-000000000001")
    (first,) = await push(engine, 1, id=own)
    assert (first.id, first.transaction_id) == (own, str(own))
    (again,) = await push(engine, 1, transaction_id=str(own))
    assert (again.status, again.id) == ("duplicate", own)


async def test_looking_for_many_items_costs_the_tail_once(engine: Engine, sql: Sql) -> None:
    """A careful push of n items beside m recent messages: n + m rows, not n times m."""
    stored = await push(engine, *range(2000))
    async with sql.transaction():
        found = await sql.fetchval(
            "select count(*) from queen.find_known(null, $1, null, array[$2::bigint], true, queen.clock())",
            [one.id for one in stored],
            stored[0].partition_id,
        )
        read = await sql.fetchval(
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'messages'"
        )
    assert found == 2000
    assert read < 3 * 2000


async def test_a_push_has_its_turn_beside_transactions_that_follow_each_other(
    engine: Engine, sql: Sql, database: str
) -> None:
    """Someone else's next transaction always waits for the lock when the last one ends."""
    await push(engine, 0)
    done = asyncio.Event()

    async def transactions() -> None:
        async with connect(database) as user:
            while not done.is_set():
                async with user.transaction():
                    await user.execute("select queen.push('q', 'p', '{\"n\": 1}')")
                    await user.execute("select pg_sleep(0.05)")

    async def pushes() -> None:
        try:
            await eventually(lambda: sql.fetchval(WAITS_FOR_A_LOCK))
            await asyncio.gather(*[push(engine, n) for n in range(20)])
        finally:
            done.set()

    await asyncio.wait_for(asyncio.gather(pushes(), *[transactions() for _ in range(3)]), 60)
    assert engine._pusher._lines == {}
