"""Consumers that prefetch while everything else happens: what they hold is never lost, never out of order."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from random import Random

import pytest

from queen.engine import Consumer, Engine
from queen.engine import consume as consuming
from queen.model import QUEUE_MODE, Message, PopRequest
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, dead, lane, numbers, pop, push

REQUEST = PopRequest(queue="q")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, nothing goes back by itself."""
    monkeypatch.setattr(consuming, "HOLD", 600.0)


async def holding(engine: Engine) -> tuple[Consumer, Message]:
    """A consumer that holds eight messages and has given the first."""
    await push(engine, *range(1, 9))
    consumer = engine.consume(REQUEST, prefetch=8)
    first = await consumer.next()
    assert first is not None
    return consumer, first


async def rest(consumer: Consumer) -> list[int]:
    """Everything it still gives, acknowledged."""
    return [number async for message in consumer for number in numbers([message])]


@pytest.mark.usefixtures("patient")
async def test_a_message_deleted_while_it_is_held_disturbs_nothing(engine: Engine, sql: Sql) -> None:
    consumer, first = await holding(engine)
    rows = await sql.fetch("select coalesce(transaction_id, id::text) as name from queen.messages order by seq")
    for seq in (3, 8):
        assert await engine.delete_message(first.partition_id, rows[seq - 1]["name"])
    await push(engine, 9)
    given = await rest(consumer)
    assert [number for number in given if number not in (3, 8)] == [2, 4, 5, 6, 7, 9]
    assert given == sorted(given)
    row = await lane(sql)
    # The lease ended with the seventh: whoever still held the eighth is told that it was nobody's any more.
    assert (row["last_consumed_seq"], row["lease_id"], row["depth"], consumer.lost) == (9, None, 0, 1)


@pytest.mark.usefixtures("patient")
async def test_a_seek_takes_back_what_is_held(engine: Engine, other: Engine, sql: Sql) -> None:
    consumer, _ = await holding(engine)
    await other.queues.seek("q", QUEUE_MODE, "seq", seq=5)
    assert await rest(consumer) == [6, 7, 8]
    assert consumer.lost == 1
    assert (await lane(sql))["last_consumed_seq"] == 8


async def test_a_pause_stops_a_consumer_within_a_moment(
    engine: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, _ = await holding(engine)
    await other.queues.pause("q")
    monkeypatch.setattr(consuming, "HOLD", -1.0)
    assert await consumer.next() is None
    await other.queues.pause("q", paused=False)
    again = await pop(other)
    assert [(*numbers([one]), one.retry_count, one.delivery_count) for one in again] == [(n, 0, 0) for n in range(2, 9)]


@pytest.mark.usefixtures("patient")
async def test_a_first_failure_spends_the_first_retry(engine: Engine, sql: Sql) -> None:
    """Every message fails twice: none inherits what befell the one before."""
    await engine.queues.configure("q", {"retry_limit": 1})
    await push(engine, *range(1, 9))
    attempts: list[tuple[int, int]] = []
    async with engine.consume(REQUEST, prefetch=8) as consumer:
        while (message := await consumer.next()) is not None:
            attempts += [(number, message.retry_count) for number in numbers([message])]
            await consumer.fail("no")
    assert attempts == [(number, retry) for number in range(1, 9) for retry in (0, 1)]
    assert await dead(sql) == list(range(1, 9))


@pytest.mark.usefixtures("patient")
async def test_an_expired_prefetch_counts_for_its_first_message_only(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_deliveries": 2})
    await holding(engine)
    await clock.advance(1000)
    consumer = engine.consume(REQUEST, prefetch=8)
    counts = [(*numbers([one]), one.delivery_count) async for one in consumer]
    assert counts == [(1, 1), *((number, 0) for number in range(2, 9))]
    assert await dead(sql) == []


GROUPS, PARTITIONS, MESSAGES = ("one", "two"), [f"p{number}" for number in range(4)], 60


class Disturbed:
    """Consumers of two engines and two groups, and what happens to them."""

    def __init__(self, engines: tuple[Engine, Engine], sql: Sql, clock: Clock, seed: int) -> None:
        self.engines, self.sql, self.clock, self.chance = engines, sql, clock, Random(seed)
        self.finished: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.told: set[tuple[str, str, int]] = set()  # said to be done, by someone who may not have heard the answer
        self.deleted: set[tuple[str, int]] = set()

    async def work(self, group: str | None = None) -> None:
        """Consume for one of the groups, any unless it is named: slowly at times, failing at times, without end."""
        chance = self.chance
        request = PopRequest(queue="q", group=group or chance.choice(GROUPS), wait=0.2)
        async with chance.choice(self.engines).consume(request, prefetch=chance.randint(2, 9)) as consumer:
            while True:
                message = await consumer.next()
                if message is None:
                    continue
                await asyncio.sleep(chance.choice([0, 0, 0, 0.001, 0.01]))
                if chance.random() < 0.1:
                    await consumer.fail("no", chance.choice(["failed", "retry"]))
                else:
                    await self.finish(consumer, message)

    async def finish(self, consumer: Consumer, message: Message) -> None:
        [number], lost = numbers([message]), consumer.lost
        self.told.add((message.group, message.partition, number))
        await consumer.done()
        if consumer.lost == lost:
            self.finished[message.group, message.partition].append(number)

    async def disturb(self) -> None:
        """Let leases run out, delete a message, pause or resume."""
        what = self.chance.choice(["expire", "delete", "pause", "resume"])
        if what == "expire":
            await self.clock.advance(400)
        elif what == "delete":
            await self.delete(self.chance.choice(PARTITIONS), self.chance.randint(1, MESSAGES))
        else:
            await self.engines[1].queues.pause("q", paused=what == "pause")

    async def delete(self, partition: str, seq: int) -> None:
        row = await self.sql.fetchrow(
            "select m.partition_id, coalesce(m.transaction_id, m.id::text) as name from queen.messages m"
            " join queen.partitions p on p.id = m.partition_id where p.name = $1 and m.seq = $2",
            partition,
            seq,
        )
        if row is not None:
            self.deleted.add((partition, seq))
            await self.engines[1].delete_message(row["partition_id"], row["name"])

    async def drained(self) -> bool:
        """Whether both groups have passed everything."""
        return not await self.sql.fetchval(
            "select count(*) from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id"
            " where c.consumer_group in ('one', 'two') and c.last_consumed_seq + 1 < p.next_seq"
        )

    def check(self) -> None:
        """Everything that nobody deleted was finished, in order and once."""
        for group in GROUPS:
            for name in PARTITIONS:
                done = self.finished[group, name]
                assert done == sorted(set(done)), (group, name)
                left = {number for number in range(1, MESSAGES + 1) if (name, number) not in self.deleted} - {*done}
                assert {(group, name, number) for number in left} <= self.told


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_happens_each_group_finishes_every_message_in_order(
    engine: Engine, other: Engine, sql: Sql, clock: Clock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Handlers fail, consumers are cancelled, leases run out, messages are deleted, the queue is paused and resumed."""
    monkeypatch.setattr(consuming, "HOLD", 0.02)
    await engine.queues.configure("q", {"retry_limit": 1_000_000})
    for group in GROUPS:
        await engine.register("q", group)
    for partition in PARTITIONS:
        await push(engine, *range(1, MESSAGES + 1), partition=partition)
    disturbed = Disturbed((engine, other), sql, clock, seed)
    workers = [asyncio.create_task(disturbed.work()) for _ in range(6)]
    for _ in range(60):
        await disturbed.disturb()
        worker = workers.pop(0)
        worker.cancel()
        await asyncio.wait([worker])
        workers.append(asyncio.create_task(disturbed.work()))
    await other.queues.pause("q", paused=False)
    await clock.advance(1000)
    workers += [asyncio.create_task(disturbed.work(group)) for group in GROUPS]  # the others may all be of one
    await eventually(disturbed.drained, limit=90)
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)
    disturbed.check()
