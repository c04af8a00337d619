"""An operator deletes rows of queen.queues by hand, also under load: nothing breaks, nothing is left."""

from __future__ import annotations

import asyncio

from queen import errors
from queen.engine import Engine
from tests.support.wait import eventually
from tests.support.work import WAITS_FOR_A_LOCK, Sql, acks, connect, dead, numbers, pop, push

LEFT = """
select (select count(*) from queen.messages) + (select count(*) from queen.partitions)
     + (select count(*) from queen.partition_consumers) + (select count(*) from queen.subscriptions)
     + (select count(*) from queen.dead_letter_queue) + (select count(*) from queen.queue_credits)
     + (select count(*) from queen.skips) + (select count(*) from queen.scheduled_messages)
"""
ORPHANS = """
select count(*) from queen.messages m
 where not exists (select from queen.partitions p where p.id = m.partition_id)
"""


async def test_everything_of_a_queue_goes_with_its_row(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_queue_size": 100})
    pushed = await push(engine, 1, 2, 3)
    await engine.ack(acks(await pop(engine, 1), "dlq"))
    await engine.delete_message(pushed[2].partition_id, pushed[2].transaction_id)
    assert await dead(sql) == [1]
    await sql.execute("delete from queen.queues where name = 'q'")
    assert await sql.fetchval(LEFT) == 0


async def test_no_stale_ids_anywhere(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    got = await pop(engine)
    await sql.execute("delete from queen.queues")
    assert [o.verdict for o in await engine.ack(acks(got))] == ["unknown"]
    assert [o.verdict for o in await engine.ack_messages(got)] == ["lost"]
    assert await pop(engine) == []
    assert (await push(engine, 2))[0].seq == 1
    assert numbers(await pop(engine)) == [2]


async def test_a_waiting_consumer_gets_what_the_new_queue_brings(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    waiting = asyncio.create_task(pop(engine, wait=20))
    await eventually(lambda: engine.parked.get("q"))
    await sql.execute("delete from queen.queues")
    await push(engine, 2)
    assert numbers(await asyncio.wait_for(waiting, 5)) == [2]


async def test_a_push_that_met_the_deletion_leaves_no_orphan(engine: Engine, sql: Sql, database: str) -> None:
    await push(engine, 1)
    async with connect(database) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("select queen.push('q', 'p', '2')")
        deletion = asyncio.create_task(sql.execute("delete from queen.queues"))
        await eventually(lambda: other.fetchval(WAITS_FOR_A_LOCK))
        assert not deletion.done()
        await transaction.commit()
        await asyncio.wait_for(deletion, 10)
    assert await sql.fetchval(ORPHANS) == 0
    assert await sql.fetchval(LEFT) == 0


async def test_under_load(engine: Engine, sql: Sql) -> None:
    done = asyncio.Event()
    pushed = popped = 0

    async def produce(name: int) -> None:
        nonlocal pushed
        while not done.is_set():
            pushed += len(await push(engine, 1, 2, partition=str(name)))

    async def consume(group: str) -> None:
        nonlocal popped
        while not done.is_set():
            got = await pop(engine, 10, group=group, wait=0.05)
            popped += len(got)
            try:
                await (engine.ack_messages(got) if popped % 2 else engine.ack(acks(got, "dlq")))
            except errors.TransactionConflict:
                continue

    async def delete() -> None:
        for _ in range(8):
            enough = pushed + 60
            await eventually(lambda: pushed > enough)  # noqa: B023 - awaited at once
            await sql.execute("delete from queen.queues")
        done.set()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for work in (delete(), *(produce(n) for n in range(4)), *(consume(g) for g in ("a", "b"))):
            tasks.create_task(work)
    assert popped > 0
    assert await sql.fetchval(ORPHANS) == 0
    await sql.execute("delete from queen.queues")
    assert await sql.fetchval(LEFT) == 0


async def test_an_ack_that_makes_a_dead_letter_lets_a_delete_pass(engine: Engine, sql: Sql, database: str) -> None:
    """It points to the queue, so it must not hold a lane that the delete will want while it waits for the queue."""
    await push(engine, 1)
    letters = acks(await pop(engine), "dlq")
    async with connect(database) as operator, operator.transaction():
        await operator.execute(
            "set deadlock_timeout = '10ms'"
        )  # were there a deadlock, it would be the delete that fails
        await operator.execute("select from queen.queues for update")
        acking = asyncio.create_task(engine.ack(letters))
        await eventually(
            lambda: sql.fetchval("select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock'")
        )
        await operator.execute("delete from queen.queues")
    assert [answer.verdict for answer in await asyncio.wait_for(acking, 20)] == ["unknown"]
    assert await sql.fetchval(LEFT) == 0
