from __future__ import annotations

import pytest

from queen import errors
from queen.engine import Engine
from queen.ids import uuid7
from tests.support.clock import Clock
from tests.support.work import Sql, acks, lane, lease_of, numbers, pop, push


async def test_a_renewed_lease_lives_on(engine: Engine, clock: Clock) -> None:
    await push(engine, 1)
    lease = lease_of(await pop(engine, lease_seconds=10))
    await clock.advance(8)
    (renewal,) = await engine.renew([lease], 10)
    assert renewal.renewed == 1
    assert renewal.expires_at is not None
    await clock.advance(8)
    assert await pop(engine) == []
    await clock.advance(3)
    assert numbers(await pop(engine)) == [1]


async def test_renewing_never_shortens(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    lease = lease_of(await pop(engine, lease_seconds=100))
    before = (await lane(sql))["lease_expires_at"]
    (renewal,) = await engine.renew([lease], 5)
    assert renewal.expires_at == before == (await lane(sql))["ready_at"]


async def test_a_lease_over_several_partitions(engine: Engine) -> None:
    for partition in "abc":
        await push(engine, 1, partition=partition)
    got = await pop(engine, 3, partitions=3)
    (renewal,) = await engine.renew([lease_of(got)], 500)
    assert renewal.renewed == 3


@pytest.mark.parametrize("how", ["expired", "unknown", "acked", "released", "taken"])
async def test_what_is_gone_is_not_renewed(engine: Engine, clock: Clock, sql: Sql, how: str) -> None:
    await push(engine, 1)
    got = await pop(engine, lease_seconds=5)
    lease = uuid7() if how == "unknown" else lease_of(got)
    if how == "acked":
        await engine.ack(acks(got))
    elif how == "released":
        await engine.release([lease])
    elif how != "unknown":
        await clock.advance(6)
    if how == "taken":
        await pop(engine)
    before = dict(await lane(sql))
    (renewal,) = await engine.renew([lease], 60)
    assert (renewal.renewed, renewal.expires_at) == (0, None)
    assert dict(await lane(sql)) == before


@pytest.mark.parametrize("seconds", [0, -1, 86_401])
async def test_how_long_is_limited(engine: Engine, seconds: int) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        await engine.renew([uuid7()], seconds)
    assert refused.value.code == "INVALID_SECONDS"


async def test_several_leases_each_get_their_answer(engine: Engine) -> None:
    for partition in "ab":
        await push(engine, 1, partition=partition)
    first, second = [lease_of(await pop(engine, 1)) for _ in range(2)]
    assert [r.renewed for r in await engine.renew([first, uuid7(), second], 60)] == [1, 0, 1]
