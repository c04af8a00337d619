from __future__ import annotations

import pytest

from queen import errors
from queen.engine import Engine, Selection
from queen.model import Redriven
from tests.support.work import Sql, acks, dead, lane, numbers, pop, push


async def bury(engine: Engine, *which: int, queue: str = "q", partition: str = "p", error: str = "boom") -> None:
    """Push messages and dead-letter them."""
    await push(engine, *which, queue=queue, partition=partition)
    await engine.ack(acks(await pop(engine, queue=queue, partition=partition), "dlq", error))


async def test_back_to_their_own_queue_as_new_messages(engine: Engine, sql: Sql) -> None:
    await bury(engine, 1, 2)
    assert await engine.dead_letters.redrive(Selection(queue="q")) == Redriven(matched=2, redriven=2)
    got = await pop(engine)
    assert numbers(got) == [1, 2]
    assert [m.seq for m in got] == [3, 4]
    rows = await sql.fetch("select message_id, redriven_as, redriven_at from queen.dead_letter_queue order by id")
    assert [row["redriven_as"] for row in rows] == [m.id for m in got]
    assert [row["message_id"] for row in rows] == [m.parent_id for m in got]
    assert all(row["redriven_at"] for row in rows)
    assert len({m.transaction_id for m in got} | {str(row["message_id"]) for row in rows}) == 4


async def test_once_only(engine: Engine) -> None:
    await bury(engine, 1)
    await engine.dead_letters.redrive(Selection(queue="q"))
    assert await engine.dead_letters.redrive(Selection(queue="q")) == Redriven(matched=0, redriven=0)


async def test_to_another_queue_with_partition_and_order_kept(engine: Engine) -> None:
    await bury(engine, 1, 2, partition="a")
    await bury(engine, 3, partition="b")
    await engine.dead_letters.redrive(Selection(queue="q"), to_queue="rescue")
    got = await pop(engine, 10, queue="rescue", partitions=5)
    assert [(m.partition, n) for m, n in zip(got, numbers(got), strict=True)] == [("a", 1), ("a", 2), ("b", 3)]


async def test_what_matches(engine: Engine, sql: Sql) -> None:
    await bury(engine, 1, error="timeout after 3 s")
    await bury(engine, 2, error="boom")
    await bury(engine, 3, queue="other")
    await push(engine, 4, queue="grouped")
    await engine.ack(acks(await pop(engine, queue="grouped", group="g"), "dlq"))
    ids = [row["id"] for row in await sql.fetch("select id from queen.dead_letter_queue order by id")]

    async def matched(selection: Selection) -> int:
        return (await engine.dead_letters.redrive(selection, dry_run=True)).matched

    assert await matched(Selection(queue="q", error_contains="timeout")) == 1
    assert await matched(Selection(group="g")) == 1
    assert await matched(Selection(ids=ids[1:3])) == 2
    assert await matched(Selection(ids=[])) == 0
    assert await matched(Selection()) == 4
    assert (
        await matched(Selection(before=(await sql.fetchval("select min(failed_at) from queen.dead_letter_queue")))) == 0
    )
    assert await engine.dead_letters.redrive(Selection(ids=ids[:1])) == Redriven(matched=1, redriven=1)
    assert numbers(await pop(engine)) == [1]


async def test_one_with_a_mended_payload(engine: Engine, sql: Sql) -> None:
    await bury(engine, 1)
    (row,) = await sql.fetch("select id from queen.dead_letter_queue")
    await engine.dead_letters.redrive(Selection(ids=[row["id"]]), payload='{"n": 42}')
    assert numbers(await pop(engine)) == [42]
    with pytest.raises(errors.InvalidRequest):
        await engine.dead_letters.redrive(Selection(queue="q"), payload="1")


async def test_in_portions(engine: Engine) -> None:
    await bury(engine, *range(10))
    portions = [(await engine.dead_letters.redrive(Selection(queue="q"), limit=4)).redriven for _ in range(4)]
    assert portions == [4, 4, 2, 0]


async def test_the_oldest_portion_comes_first(engine: Engine) -> None:
    await bury(engine, *range(10))
    await engine.dead_letters.redrive(Selection(queue="q"), limit=4)
    assert numbers(await pop(engine)) == [0, 1, 2, 3]


async def test_a_full_queue_takes_none_of_them(engine: Engine, sql: Sql) -> None:
    await bury(engine, 1, 2, 3)
    await engine.queues.configure("small", {"max_queue_size": 2})
    with pytest.raises(errors.QueueFull) as refused:
        await engine.dead_letters.redrive(Selection(queue="q"), to_queue="small")
    assert refused.value.figures["limit"] == 2
    assert await pop(engine, queue="small") == []
    assert await sql.fetchval("select count(*) from queen.dead_letter_queue where redriven_at is not null") == 0


async def test_retention_does_not_take_a_dead_letter_away(engine: Engine, sql: Sql) -> None:
    await bury(engine, 1)
    await engine.queues.clear("q")
    assert await dead(sql) == [1]
    await engine.dead_letters.redrive(Selection(queue="q"))
    assert numbers(await pop(engine)) == [1]


async def test_purge(engine: Engine, sql: Sql) -> None:
    await bury(engine, 1, error="a")
    await bury(engine, 2, error="b")
    assert await engine.dead_letters.purge(Selection(error_contains="a"), dry_run=True) == 1
    assert await engine.dead_letters.purge(Selection(error_contains="a")) == 1
    assert await dead(sql) == [2]


async def test_only_the_group_that_failed_gets_it_again(engine: Engine, sql: Sql) -> None:
    for group in ("a", "b"):
        await engine.register("q", group)
    await push(engine, 1)
    for group in ("a", "b"):
        await engine.ack(acks(await pop(engine, group=group), "dlq" if group == "a" else "completed"))
    assert await engine.dead_letters.redrive(Selection(queue="q")) == Redriven(matched=1, redriven=1)
    await push(engine, 2)
    assert numbers(await pop(engine, group="a")) == [1, 2]
    assert numbers(await pop(engine, group="b")) == [2]
    assert (await lane(sql, group="b"))["depth"] == 1


async def test_all_groups_on_request(engine: Engine) -> None:
    for group in ("a", "b"):
        await engine.register("q", group)
    await push(engine, 1)
    for group in ("a", "b"):
        await engine.ack(acks(await pop(engine, group=group), "dlq" if group == "a" else "completed"))
    assert (await engine.dead_letters.redrive(Selection(queue="q"), to_all=True)).redriven == 1
    assert [numbers(await pop(engine, group=group)) for group in ("a", "b")] == [[1], [1]]


async def test_a_group_that_is_gone_gets_nothing_back(engine: Engine, sql: Sql) -> None:
    for group in ("a", "b"):
        await engine.register("q", group)
    await push(engine, 1)
    await engine.ack(acks(await pop(engine, group="a"), "dlq"))
    await sql.fetchval("select queen.forget_group('a', 'q', true)")
    assert await engine.dead_letters.redrive(Selection(queue="q")) == Redriven(matched=1, redriven=0)
    assert await sql.fetchval("select count(*) from queen.dead_letter_queue where redriven_at is null") == 1
    assert (await engine.dead_letters.redrive(Selection(queue="q"), to_queue="rescue")).redriven == 1
