from __future__ import annotations

import asyncio

import pytest

from queen import errors
from queen.engine import Engine
from tests.support.clock import Clock
from tests.support.work import Sql, lane, numbers, pop, push


async def test_a_new_queue_has_the_defaults_and_a_first_partition(engine: Engine, sql: Sql) -> None:
    queue = await engine.queues.configure("q", {})
    assert (queue.name, queue.lease_time, queue.retry_limit, queue.retry_delay, queue.max_queue_size) == (
        "q",
        300,
        3,
        0,
        0,
    )
    assert (queue.partial_failure, queue.delivery_log, queue.paused, queue.max_deliveries) == ("dlq", True, False, 0)
    assert await sql.fetchval("select name from queen.partitions") == "Default"
    assert await engine.queues.queue("q") == queue
    assert await engine.queues.queue("none") is None


async def test_what_is_left_out_keeps_its_value(engine: Engine) -> None:
    await engine.queues.configure("q", {"lease_time": 5, "priority": -2}, namespace="n", task="t")
    queue = await engine.queues.configure("q", {"retry_limit": 9})
    assert (queue.lease_time, queue.priority, queue.retry_limit, queue.namespace, queue.task) == (5, -2, 9, "n", "t")


async def test_a_queue_made_by_a_push_can_be_configured(engine: Engine) -> None:
    await push(engine, 1)
    assert (await engine.queues.configure("q", {"lease_time": 7})).lease_time == 7
    assert numbers(await pop(engine, partition="p")) == [1]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"colour": "red"}, "INVALID_COLOUR"),
        ({"id": 5}, "INVALID_ID"),
        ({"lease_time": -1}, "INVALID_LEASE_TIME"),
        ({"lease_time": "5"}, "INVALID_LEASE_TIME"),
        ({"lease_time": True}, "INVALID_LEASE_TIME"),
        ({"lease_time": 2**31}, "INVALID_LEASE_TIME"),
        ({"paused": 1}, "INVALID_PAUSED"),
        ({"partial_failure": "ignore"}, "INVALID_PARTIAL_FAILURE"),
        ({"partial_failure": None}, "INVALID_PARTIAL_FAILURE"),
    ],
)
async def test_what_is_not_allowed_is_named(engine: Engine, options: dict[str, object], code: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        await engine.queues.configure("q", options)
    assert refused.value.code == code
    assert await engine.queues.queue("q") is None


async def test_a_name_too_long(engine: Engine) -> None:
    with pytest.raises(errors.InvalidRequest):
        await engine.queues.configure("x" * 513, {})


async def test_many_at_once_agree(engine: Engine) -> None:
    await push(engine, 1)
    await asyncio.gather(*[engine.queues.configure("q", {"priority": n}) for n in range(10)])
    queue = await engine.queues.queue("q")
    assert queue is not None
    assert queue.priority in range(10)


async def test_lowering_a_delay_frees_what_waits_for_it(engine: Engine, sql: Sql) -> None:
    """R3"""
    await engine.queues.configure("q", {"delayed_processing": 3600})
    await push(engine, 1)
    assert await pop(engine) == []
    await engine.queues.configure("q", {"delayed_processing": 0})
    assert numbers(await pop(engine)) == [1]


async def test_raising_a_delay_holds_what_is_still_young(engine: Engine, clock: Clock) -> None:
    await push(engine, 1)
    await engine.queues.configure("q", {"delayed_processing": 60})
    assert await pop(engine) == []
    await clock.advance(61)
    assert numbers(await pop(engine)) == [1]


async def test_lowering_a_window_leaves_leases_alone(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"window_buffer": 60})
    await push(engine, 1)
    await clock.advance(61)
    assert numbers(await pop(engine)) == [1]
    before = dict(await lane(sql))
    await engine.queues.configure("q", {"window_buffer": 0})
    assert dict(await lane(sql)) == before
    assert await pop(engine) == []


async def test_pausing_a_queue_that_is_not_there(engine: Engine) -> None:
    with pytest.raises(errors.QueueNotFound):
        await engine.queues.pause("none")


async def test_clear_removes_messages_and_keeps_the_rest(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    await pop(engine, 1)
    assert await engine.queues.clear("q") == 3
    row = await lane(sql)
    assert (row["depth"], row["lease_id"], row["ready_at"]) == (0, None, None)
    assert (await push(engine, 4))[0].seq == 4
    assert numbers(await pop(engine)) == [4]
    with pytest.raises(errors.QueueNotFound):
        await engine.queues.clear("none")


async def test_delete(engine: Engine) -> None:
    await push(engine, 1)
    assert await engine.queues.delete("q")
    assert not await engine.queues.delete("q")
    assert await pop(engine) == []
