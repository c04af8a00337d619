"""I9: pushes, acks and the caller's own statements commit together or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from queen import errors
from queen.engine import Engine, RolledBack
from queen.ids import uuid7
from queen.model import Ack
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, acks, connect, dead, lane, lease_of, message, numbers, pop, push, stored

if TYPE_CHECKING:
    from queen.db.pool import Connection


async def test_ack_and_push_move_a_message(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, queue="in")
    got = await pop(engine, queue="in")
    done = await engine.transaction([message(2, "out"), message(3, "out")], acks(got))
    assert [p.status for p in done.pushed] == ["queued", "queued"]
    assert [(a.verdict, a.released) for a in done.acked] == [("acked", True)]
    assert await pop(engine, queue="in") == []
    assert numbers(await pop(engine, queue="out")) == [2, 3]


async def test_over_several_queues_partitions_and_groups(engine: Engine, sql: Sql) -> None:
    for name in ("a", "b"):
        await push(engine, 1, queue="in", partition=name)
    first, second = await pop(engine, queue="in", group="g"), await pop(engine, queue="in", group="g")
    await engine.transaction([message(n, f"out{n}", f"p{n}") for n in range(5)], acks([*first, *second]))
    assert [len(await stored(sql, queue=f"out{n}", partition=f"p{n}")) for n in range(5)] == [1] * 5
    assert len(await pop(engine, 2, queue="in", partitions=2)) == 2
    assert await pop(engine, queue="in", group="g") == []


@pytest.mark.parametrize("broken", ["unknown", "lost", "retry", "work", "full", "payload", "lease"])
async def test_one_thing_that_fails_takes_back_all(engine: Engine, clock: Clock, sql: Sql, broken: str) -> None:
    await engine.queues.configure("full", {"max_queue_size": 1})
    await push(engine, 1, queue="full")
    await push(engine, 1, 2)
    got = await pop(engine, 1, lease_seconds=5)
    pushes, ends, leases = [message(9, "out")], acks(got), [lease_of(got)]

    async def work(connection: Connection) -> None:
        await connection.execute("create table public.done ()")
        if broken == "work":
            raise ZeroDivisionError

    if broken == "unknown":
        ends.append(Ack(partition_id=got[0].partition_id, transaction_id="no such"))
    elif broken == "lost":
        ends.append(Ack(partition_id=got[0].partition_id, transaction_id=got[0].transaction_id, lease_id=uuid7()))
    elif broken == "retry":
        ends = acks(got, "retry")
    elif broken == "full":
        pushes.append(message(2, "full"))
    elif broken == "payload":
        pushes.append(message(2, "out").__class__(queue="out", payload="{"))
    elif broken == "lease":
        leases.append(uuid7())
    expected = {
        "unknown": RolledBack, "lost": RolledBack, "retry": RolledBack, "work": ZeroDivisionError,
        "full": errors.QueueFull, "payload": errors.InvalidRequest, "lease": errors.LeaseLost,
    }  # fmt: skip
    with pytest.raises(expected[broken]):
        await engine.transaction(pushes, ends, leases=leases, work=work)
    assert await sql.fetchval("select to_regclass('public.done')") is None
    assert await pop(engine, queue="out") == []
    assert (await lane(sql))["last_consumed_seq"] == 0
    await clock.advance(6)
    assert numbers(await pop(engine, 1)) == [1]


async def test_the_callers_own_statements_commit_too(engine: Engine, sql: Sql) -> None:
    await sql.execute("create table public.done (n int)")
    await push(engine, 1)
    got = await pop(engine)

    async def work(connection: Connection) -> None:
        await connection.execute("insert into public.done values (1)")

    await engine.transaction([message(2, "out")], acks(got), work=work, isolation="serializable")
    assert await sql.fetchval("select count(*) from public.done") == 1


async def test_failed_dead_letters_at_once_and_releases(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    done = await engine.transaction([], acks(got[:1], "failed", "no"))
    assert [(a.dead_letter, a.released) for a in done.acked] == [(True, True)]
    assert await dead(sql) == [1]
    assert numbers(await pop(engine)) == [2, 3]


async def test_failed_may_spend_retries_where_the_caller_wants_it(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    got = await pop(engine)
    await engine.transaction([message(2, "out")], acks(got, "failed"), at_once=False)
    assert await dead(sql) == []
    assert (await pop(engine))[0].retry_count == 1


async def test_a_waiting_consumer_hears_of_it(other: Engine) -> None:
    await other.register("out", "g")
    waiting = asyncio.create_task(pop(other, queue="out", group="g", wait=50))
    await eventually(lambda: other.parked.get("out"))
    await other.transaction([message(1, "out")])
    assert numbers(await asyncio.wait_for(waiting, 30)) == [1]


async def test_conflicts_are_tried_again(engine: Engine, sql: Sql, database: str) -> None:
    """Two serialisable transactions that read what the other writes: both succeed, one after the other."""
    await sql.execute("create table public.tally (n int); insert into public.tally values (0)")

    async def work(connection: Connection) -> None:
        n = await connection.fetchval("select n from public.tally")
        await connection.execute("update public.tally set n = $1", n + 1)

    calls = [engine.transaction([message(n, partition=str(n))], work=work, isolation="serializable") for n in range(3)]
    await asyncio.gather(*calls)
    assert await sql.fetchval("select n from public.tally") == 3
    assert await sql.fetchval("select count(*) from queen.messages") == 3


async def test_pushes_come_first_so_that_transactions_do_not_deadlock(engine: Engine, sql: Sql) -> None:
    """R1: each acks in a queue and pushes into the other's; none fails, also not once."""
    await asyncio.gather(*[push(engine, *range(20), queue=queue) for queue in "ab"])
    before = await sql.fetchval("select deadlocks from pg_stat_database where datname = current_database()")

    async def shuttle(source: str, target: str) -> None:
        for number in range(20):
            got = await pop(engine, 1, queue=source)
            if got:
                await engine.transaction([message(100 + number, target)], acks(got))

    await asyncio.gather(*[shuttle("a", "b"), shuttle("b", "a"), shuttle("a", "b"), shuttle("b", "a")])
    await sql.execute("select pg_stat_clear_snapshot()")
    assert await sql.fetchval("select deadlocks from pg_stat_database where datname = current_database()") == before


async def test_a_required_lease_stays_until_the_commit(engine: Engine, database: str, sql: Sql) -> None:
    """Nobody can take the lease away between the check and the commit."""
    await push(engine, 1)
    lease = lease_of(await pop(engine))
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work(_: Connection) -> None:
        entered.set()
        await leave.wait()

    transaction = asyncio.create_task(engine.transaction([message(2, "out")], leases=[lease], work=work))
    await asyncio.wait_for(entered.wait(), 10)
    async with connect(database) as other:
        release = asyncio.create_task(other.fetch("select * from queen.release($1)", [lease]))
        await eventually(
            lambda: sql.fetchval("select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock'")
        )
        assert not release.done()
        leave.set()
        await transaction
        assert (await release)[0]["released"] == 1
