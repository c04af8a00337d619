from __future__ import annotations

import pytest

from queen import errors
from queen.engine import Engine
from queen.ids import uuid7
from tests.support.clock import Clock
from tests.support.work import Sql, acks, dead, lease_of, numbers, pop, push, up_to


async def test_released_work_comes_again_at_once_and_uncounted(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 0, "max_deliveries": 1})
    await push(engine, 1, 2)
    for _ in range(3):
        got = await pop(engine)
        assert numbers(got) == [1, 2]
        assert {(m.retry_count, m.delivery_count) for m in got} == {(0, 0)}
        assert await engine.release([lease_of(got)]) == [1]
    assert await dead(sql) == []
    assert await sql.fetchval("select count(*) from queen.deliveries where outcome = 'released'") == 3


async def test_what_was_acknowledged_stays_so(engine: Engine) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    await engine.ack_leases([up_to(got[0])])
    await engine.release([lease_of(got)])
    assert numbers(await pop(engine)) == [2, 3]


async def test_released_with_a_delay(engine: Engine, clock: Clock) -> None:
    await push(engine, 1)
    await engine.release([lease_of(await pop(engine))], 5_000)
    assert await pop(engine) == []
    await clock.advance(6)
    assert numbers(await pop(engine)) == [1]


async def test_a_released_lease_is_lost(engine: Engine) -> None:
    await push(engine, 1)
    got = await pop(engine)
    await engine.release([lease_of(got)])
    assert await engine.release([lease_of(got), uuid7()]) == [0, 0]
    assert [o.verdict for o in await engine.ack(acks(got))] == ["lost"]


async def test_all_partitions_of_a_lease(engine: Engine) -> None:
    for partition in "abc":
        await push(engine, 1, partition=partition)
    assert await engine.release([lease_of(await pop(engine, 3, partitions=3))]) == [3]
    assert len(await pop(engine, 3, partitions=3)) == 3


@pytest.mark.parametrize("delay", [-1, 86_400_001])
async def test_the_delay_is_limited(engine: Engine, delay: int) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        await engine.release([uuid7()], delay)
    assert refused.value.code == "INVALID_DELAY_MS"
