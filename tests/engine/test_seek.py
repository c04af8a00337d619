from __future__ import annotations

from typing import Any, Literal

import pytest

from queen import errors
from queen.engine import Engine
from queen.model import SeekResult
from tests.support.clock import Clock
from tests.support.work import Sql, acks, lane, numbers, pop, push


async def test_to_start_replays_everything(engine: Engine) -> None:
    for partition in "ab":
        await push(engine, 1, 2, partition=partition)
    await engine.ack_messages(await pop(engine, 10, partitions=2))
    assert await engine.queues.seek("q", "__QUEUE_MODE__", "start") == SeekResult(
        partitions=2, redelivered=4, skipped=0
    )
    assert len(await pop(engine, 10, partitions=2)) == 4


async def test_to_end_skips_what_waits(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    await engine.ack_messages(await pop(engine, 1))
    found = await engine.queues.seek("q", "__QUEUE_MODE__", "end")
    assert (found.redelivered, found.skipped) == (0, 2)
    assert await pop(engine) == []
    assert (await lane(sql))["ready_at"] is None
    await push(engine, 4)
    assert numbers(await pop(engine)) == [4]


async def test_to_a_time_starts_after_the_newest_message_not_later(engine: Engine, clock: Clock, sql: Sql) -> None:
    for number in range(1, 6):
        await push(engine, number)
        await clock.advance(60)
    await engine.ack_messages(await pop(engine))
    third = await sql.fetchval("select created_at from queen.messages where seq = 3")
    await engine.queues.seek("q", "__QUEUE_MODE__", "time", time=third)
    assert numbers(await pop(engine)) == [4, 5]


async def test_to_a_seq(engine: Engine) -> None:
    await push(engine, *range(1, 6))
    await engine.ack_messages(await pop(engine))
    await engine.queues.seek("q", "__QUEUE_MODE__", "seq", seq=2)
    got = await pop(engine)
    assert numbers(got) == [3, 4, 5]
    await engine.queues.seek("q", "__QUEUE_MODE__", "seq", seq=1_000)
    assert await pop(engine) == []
    await push(engine, 6)
    assert numbers(await pop(engine)) == [6]


async def test_a_preview_changes_nothing(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    await engine.ack_messages(await pop(engine, 2))
    await pop(engine)
    before = dict(await lane(sql))
    found = await engine.queues.seek("q", "__QUEUE_MODE__", "start", dry_run=True)
    assert (found.partitions, found.redelivered, found.skipped) == (1, 2, 0)
    assert dict(await lane(sql)) == before


async def test_one_partition_only(engine: Engine) -> None:
    for partition in "ab":
        await push(engine, 1, partition=partition)
    await engine.ack_messages(await pop(engine, 2, partitions=2))
    assert (await engine.queues.seek("q", "__QUEUE_MODE__", "start", partition="b")).partitions == 1
    assert [m.partition for m in await pop(engine, 5, partitions=5)] == ["b"]


async def test_a_seek_ends_leases_and_fences_their_holders(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2)
    got = await pop(engine)
    await engine.ack(acks(got, "failed"))
    got = await pop(engine)
    await engine.queues.seek("q", "__QUEUE_MODE__", "start")
    assert [o.verdict for o in await engine.ack(acks(got))] == ["lost", "lost"]
    again = await pop(engine)
    assert numbers(again) == [1, 2]
    assert {m.retry_count for m in again} == {0}
    assert await sql.fetchval("select count(*) from queen.deliveries where outcome = 'moved'") == 1


async def test_other_groups_stay_where_they_are(engine: Engine) -> None:
    await push(engine, 1)
    await engine.ack_messages(await pop(engine, group="a"))
    await engine.ack_messages(await pop(engine, group="b"))
    await engine.queues.seek("q", "a", "start")
    assert numbers(await pop(engine, group="a")) == [1]
    assert await pop(engine, group="b") == []


async def test_not_before_what_retention_left(engine: Engine, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 1})
    await push(engine, 1, 2, 3)
    await engine.ack_messages(await pop(engine, 2))
    await clock.advance(10)
    partition = (await lane(sql))["partition_id"]
    assert await sql.fetchval("select queen.retain_partitions(array[$1::bigint])", partition) == 2
    found = await engine.queues.seek("q", "__QUEUE_MODE__", "start")
    assert (found.redelivered, found.skipped) == (0, 0)
    assert numbers(await pop(engine)) == [3]


async def test_a_queue_that_is_not_there(engine: Engine) -> None:
    with pytest.raises(errors.QueueNotFound):
        await engine.queues.seek("none", "g", "start")


@pytest.mark.parametrize(("to", "more"), [("time", {}), ("seq", {}), ("start", {"seq": 1}), ("seq", {"time": "x"})])
async def test_where_to_must_be_said(
    engine: Engine, to: Literal["start", "end", "time", "seq"], more: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        await engine.queues.seek("q", "g", to, **more)
    assert refused.value.code == "INVALID_TO"
