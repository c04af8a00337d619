from __future__ import annotations

from queen.engine import Engine
from tests.support.clock import Clock
from tests.support.work import Sql, lane, numbers, pop, push


async def test_delayed_processing_hands_out_what_is_old_enough(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("q", {"delayed_processing": 30})
    await push(engine, 1)
    await clock.advance(20)
    await push(engine, 2)
    assert await pop(engine) == []
    await clock.advance(15)
    first = await pop(engine)
    assert numbers(first) == [1]
    await engine.ack_messages(first)
    assert await pop(engine) == []
    await clock.advance(16)
    assert numbers(await pop(engine)) == [2]


async def test_the_lane_is_ready_when_its_head_is_old_enough(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"delayed_processing": 30})
    await push(engine, 1)
    await clock.advance(31)
    await push(engine, 2)
    await engine.ack_messages(await pop(engine))
    assert await pop(engine) == []
    created = await sql.fetchval("select max(created_at) from queen.messages")
    assert ((await lane(sql))["ready_at"] - created).total_seconds() == 30


async def test_a_window_waits_for_the_partition_to_rest(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("q", {"window_buffer": 30})
    await push(engine, 1)
    for number in range(2, 6):
        await clock.advance(20)
        assert await pop(engine) == []
        await push(engine, number)
    await clock.advance(31)
    assert numbers(await pop(engine)) == [1, 2, 3, 4, 5]


async def test_one_that_never_rests_is_handed_out_after_ten_windows(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("q", {"window_buffer": 10})
    for number in range(11):
        await push(engine, number)
        assert await pop(engine) == []
        await clock.advance(9)
    await push(engine, 11)
    await clock.advance(2)
    assert len(await pop(engine)) == 12


async def test_a_window_is_per_partition(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("q", {"window_buffer": 30})
    await push(engine, 1, partition="rests")
    await clock.advance(31)
    await push(engine, 2, partition="busy")
    got = await pop(engine, 10, partitions=5)
    assert [m.partition for m in got] == ["rests"]
