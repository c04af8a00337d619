"""What retention removes, and above all what it does not."""

from __future__ import annotations

from queen.engine import Engine
from tests.support.clock import Clock
from tests.support.work import Sql, acks, connect, lane, numbers, pop, push, stored

RETAIN = "select sum(queen.retain_partitions(array[id], $1))::int from queen.partitions"


async def test_off_means_nothing_goes(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_seconds": 10, "completed_retention_seconds": 10})
    await push(engine, 1, 2)
    await engine.ack_messages(await pop(engine))
    await clock.advance(1000)
    assert await sql.fetchval(RETAIN, 1000) == 0


async def test_age_removes_consumed_or_not(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, 1, 2)
    await engine.ack_messages(await pop(engine, 1))
    await clock.advance(61)
    await push(engine, 3)
    assert await sql.fetchval(RETAIN, 1000) == 2
    assert await stored(sql) == [(3, 3)]
    row = await lane(sql)
    assert (row["first_seq"], row["next_seq"], row["depth"]) == (3, 4, 1)
    assert numbers(await pop(engine)) == [3]
    history = await sql.fetchrow("select retention_type, messages_removed, up_to_seq from queen.retention_history")
    assert history is not None
    assert tuple(history.values()) == ("retention", 2, 2)


async def test_a_pop_passes_what_is_too_old_before_the_service_runs(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, 1)
    await clock.advance(61)
    await push(engine, 2)
    assert numbers(await pop(engine)) == [2]


async def test_not_inside_a_live_lease(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, 1, 2, 3)
    got = await pop(engine, 2, lease_seconds=1000)
    await engine.ack(acks(got[:1]))
    await clock.advance(61)
    assert await sql.fetchval(RETAIN, 1000) == 1
    assert [n for _, n in await stored(sql)] == [2, 3]
    await clock.advance(1000)
    assert await sql.fetchval(RETAIN, 1000) == 2


async def test_completed_waits_for_every_group(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 60})
    await push(engine, 1, 2, 3)
    await clock.advance(61)
    assert await sql.fetchval(RETAIN, 1000) == 0, "there is no group yet"
    await engine.ack_messages(await pop(engine, group="a"))
    got = await pop(engine, group="b")
    assert await sql.fetchval(RETAIN, 1000) == 0
    await engine.ack(acks(got[:2]))
    assert await sql.fetchval(RETAIN, 1000) == 2
    assert [n for _, n in await stored(sql)] == [3]


async def test_completed_but_still_young(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 60})
    await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    await clock.advance(30)
    assert await sql.fetchval(RETAIN, 1000) == 0


async def test_completed_waits_for_a_group_that_is_registering(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 60})
    await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    await clock.advance(61)
    await sql.execute("select queen.subscribe('q', 'late', 'all', null)")
    assert await sql.fetchval(RETAIN, 1000) == 0
    assert numbers(await pop(engine, group="late")) == [1]


async def test_in_portions(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, *range(10))
    await clock.advance(61)
    assert [await sql.fetchval(RETAIN, 4) for _ in range(4)] == [4, 4, 2, 0]


async def test_a_held_partition_is_left_for_the_next_run(engine: Engine, sql: Sql, clock: Clock, database: str) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, 1)
    await clock.advance(61)
    async with connect(database) as other, other.transaction():
        await other.execute("select queen.push('q', 'p', '{\"n\": 2}')")
        assert await sql.fetchval(RETAIN, 1000) == 0
    assert await sql.fetchval(RETAIN, 1000) == 1


async def test_a_group_behind_what_was_removed_goes_on_where_it_starts(engine: Engine, sql: Sql, clock: Clock) -> None:
    """R8"""
    await engine.register("q", "slow")
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, 1, 2, 3)
    await clock.advance(61)
    await sql.fetchval(RETAIN, 1000)
    assert (await lane(sql, group="slow"))["depth"] == 0
    assert await pop(engine, group="slow") == []
    row = await lane(sql, group="slow")
    assert (row["last_consumed_seq"], row["ready_at"]) == (3, None)
    await push(engine, 4)
    assert numbers(await pop(engine, group="slow")) == [4]


async def test_skips_go_with_their_messages(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    pushed = await push(engine, 1, 2)
    await engine.delete_message(pushed[0].partition_id, pushed[0].transaction_id)
    await clock.advance(61)
    await sql.fetchval(RETAIN, 1000)
    assert await sql.fetchval("select count(*) from queen.skips") == 0
    assert await sql.fetchval("select has_skips from queen.partitions where name = 'p'") is False


async def test_a_removed_transaction_id_may_come_again(engine: Engine, sql: Sql, clock: Clock) -> None:
    """R9: dedup lasts as long as the message is kept."""
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, 1, transaction_id="t")
    assert (await push(engine, 1, transaction_id="t"))[0].status == "duplicate"
    await clock.advance(61)
    await sql.fetchval(RETAIN, 1000)
    assert (await push(engine, 1, transaction_id="t"))[0].status == "queued"


async def test_with_the_archive_on_nothing_goes_before_every_lake_has_it(
    engine: Engine, sql: Sql, clock: Clock
) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60, "archive": True})
    await push(engine, 1, 2, 3, 4)
    await clock.advance(61)
    assert await sql.fetchval(RETAIN, 1000) == 0, "no lake has anything"
    third = await sql.fetchval("select pos from queen.messages where seq = 3")
    note = """insert into queen.archive_positions values ($1, 'messages', $2, $3, null, now())
              on conflict (lake, source) do update set pos = excluded.pos"""
    one, other = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
    await sql.execute(note, one, "here", third)
    await sql.execute(note, other, "there", third - 1)
    assert await sql.fetchval(RETAIN, 1000) == 1, "the slower lake decides"
    await sql.execute(note, other, "there", third)
    assert await sql.fetchval(RETAIN, 1000) == 1
    assert await stored(sql) == [(3, 3), (4, 4)]
    await sql.execute("update queen.archive_positions set pos = pos + 2")
    assert await sql.fetchval(RETAIN, 1) == 1
    assert await sql.fetchval(RETAIN, 1000) == 1


async def test_what_groups_have_passed_waits_for_the_archive_too(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 60, "archive": True})
    await push(engine, 1, 2)
    await engine.ack_messages(await pop(engine))
    await clock.advance(61)
    assert await sql.fetchval(RETAIN, 1000) == 0
    await engine.queues.configure("q", {"archive": False})
    assert await sql.fetchval(RETAIN, 1000) == 2
