"""Behind pgbouncer in transaction mode, with LISTEN off: everything works, nothing depends on a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from queen.config import Settings
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from queen.errors import LeaseLost, PartitionBusy
from queen.model import Ack, NewMessage, PopRequest
from tests.support.bouncer import bouncer
from tests.support.wait import eventually
from tests.support.work import acks, connect, message, numbers, pop, push


@pytest.fixture
def pooled(database: str) -> Iterator[str]:
    """The address of the test's database through a pooler."""
    with bouncer(database) as address:
        yield address


@pytest.fixture
async def engine(pooled: str) -> AsyncIterator[Engine]:
    options = PoolOptions(size=8, pooler="transaction", lock_timeout=0.5)
    async with Engine(Database(pooled, options), listen_url=None, poll=0.1) as opened:
        yield opened


async def test_the_whole_way_of_a_message(engine: Engine) -> None:
    await push(engine, 1, 2, 3)
    messages = await pop(engine, 2)
    assert numbers(messages) == [1, 2]
    await engine.renew([messages[0].lease_id] if messages[0].lease_id else [], 60)
    await engine.ack_messages(messages)
    rest = await pop(engine)
    assert [one.verdict for one in await engine.ack(acks(rest, "failed", "boom"))] == ["acked"]
    again = await pop(engine)
    assert numbers(again) == [3]
    await engine.transaction([NewMessage(queue="out", payload="1")], acks(again))
    assert len(await pop(engine, queue="out")) == 1


async def test_many_callers_share_three_server_connections(engine: Engine) -> None:
    await asyncio.gather(*(push(engine, n, partition=f"p{n % 7}", transaction_id=f"t{n}") for n in range(300)))
    seen: list[int] = []
    while messages := await pop(engine, 50, partitions=3):
        seen += numbers(messages)
        await engine.ack_messages(messages)
    assert sorted(seen) == list(range(300))


async def test_a_waiting_pop_finds_work_by_polling(engine: Engine) -> None:
    waiting = asyncio.create_task(engine.pop(PopRequest(queue="q", group="g", wait=20)))
    await eventually(lambda: engine.parked)
    await push(engine, 1)
    assert numbers(await waiting) == [1]


async def test_time_limits_hold_although_no_session_keeps_them(engine: Engine, database: str) -> None:
    await push(engine, 1)
    async with connect(database) as holder:
        await holder.execute("begin; select from queen.partitions for update")
        with pytest.raises(PartitionBusy):
            await engine.push([message(n) for n in range(100)])
        await holder.execute("rollback")


async def test_a_lost_lease_is_refused(engine: Engine) -> None:
    await push(engine, 1)
    [first] = await pop(engine)
    assert first.lease_id is not None
    await engine.release([first.lease_id])
    ack = Ack(partition_id=first.partition_id, transaction_id=first.transaction_id, lease_id=first.lease_id)
    assert [one.verdict for one in await engine.ack([ack])] == ["lost"]
    with pytest.raises(LeaseLost):
        await engine.transaction([], [], leases=[first.lease_id])


async def test_services_run(engine: Engine) -> None:
    await push(engine, 1)
    jobs = Jobs(engine, Settings())
    assert await jobs.stats() == {"queues": 1}
    assert await jobs.retention() == {"removed": 0, "finished": True}
    assert await engine.horizon() == 2
