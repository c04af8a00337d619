"""I1: whatever the order of commits, nothing is skipped and every group gets everything once, in order."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest

from queen.engine import Engine
from queen.model import NewMessage
from tests.support.wait import eventually
from tests.support.work import WAITS_FOR_A_LOCK, Sql, connect, numbers, pop, push, stored


@pytest.fixture
async def other(database: str) -> AsyncIterator[Engine]:
    """A second process's engine."""
    async with Engine.connect(database) as opened:
        yield opened


@pytest.mark.parametrize("first", [0, 1])
async def test_two_open_transactions_commit_in_either_order(engine: Engine, database: str, first: int) -> None:
    """The second waits for the first: seq order is commit order, so nothing can appear below what was seen."""
    await push(engine, 0)
    seen: list[tuple[int, int]] = []

    async def look() -> None:
        got = await pop(engine, 10, wait=0.05)
        seen.extend(zip([m.seq for m in got], numbers(got), strict=True))
        await engine.ack_messages(got)

    async with connect(database) as one, connect(database) as two:
        sides = [one, two] if first == 0 else [two, one]
        await sides[0].execute("begin; select queen.push('q', 'p', '{\"n\": 1}')")
        waiting = asyncio.create_task(sides[1].execute("begin; select queen.push('q', 'p', '{\"n\": 2}')"))
        await look()
        assert not waiting.done()
        await sides[0].execute("commit")
        await waiting
        await look()
        await sides[1].execute("commit")
        for _ in range(3):
            await look()
    assert seen == [(1, 0), (2, 1), (3, 2)]


async def test_a_push_to_several_partitions_waits_for_the_one_before_it(
    engine: Engine, database: str, sql: Sql
) -> None:
    for partition in ("a", "b"):
        await push(engine, 0, partition=partition)
    async with connect(database) as one, connect(database) as two:
        await one.execute("begin; select queen.push('q', 'b', '{\"n\": 1}')")
        both = """select queen.push_many('q', '{a,b}', array['{"n": 2}', '{"n": 2}']::jsonb[])"""
        waiting = asyncio.create_task(two.execute(both))
        await eventually(lambda: sql.fetchval(WAITS_FOR_A_LOCK))
        await one.execute("commit")
        await waiting
    assert await stored(sql, partition="a") == [(1, 0), (2, 2)]
    assert await stored(sql, partition="b") == [(1, 0), (2, 1), (3, 2)]


async def test_on_different_partitions_neither_waits(engine: Engine, database: str) -> None:
    await push(engine, 0, partition="a")
    await push(engine, 0, partition="b")
    async with connect(database) as one, connect(database) as two:
        await one.execute("begin; select queen.push('q', 'a', '{\"n\": 1}')")
        await two.execute("begin; select queen.push('q', 'b', '{\"n\": 2}')")
        await two.execute("commit")
        assert sorted(numbers(await pop(engine, 10, partitions=2))) == [0, 0, 2]
        await one.execute("commit")


class Consumers:
    """Consumers of one group, with what each partition brought them, in the order it came."""

    def __init__(self, group: str, expected: int) -> None:
        self.group = group
        self.expected = expected
        self.seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.count = 0

    async def run(self, engine: Engine) -> None:
        while self.count < self.expected:
            got = await pop(engine, 100, group=self.group, partitions=2, wait=0.5)
            for message in got:
                self.seen[message.partition].append((message.seq, json.loads(message.payload)["n"]))
            outcomes = await engine.ack_messages(got)
            assert all(outcome.ok for outcome in outcomes)
            self.count += len(got)

    def check(self, produced: dict[str, int]) -> None:
        assert {partition: len(rows) for partition, rows in self.seen.items()} == produced
        for rows in self.seen.values():
            assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1))
            by_producer: dict[int, list[int]] = defaultdict(list)
            for _, number in rows:
                by_producer[number // 10_000].append(number)
            assert all(own == sorted(set(own)) for own in by_producer.values())


@pytest.mark.timeout(180)
async def test_sixteen_producers_four_partitions_and_newcomers(engine: Engine, other: Engine, sql: Sql) -> None:
    """16 x 2 000 messages, 4 consumers in 2 groups; a third group and a fifth partition appear in the middle."""
    count, producers = 2_000, 16
    sides = [engine, other]
    produced: dict[str, int] = defaultdict(int)
    halfway = asyncio.Event()

    async def produce(producer: int) -> None:
        for start in range(0, count, 50):
            late = producer % 5 == 0 and start >= count // 2
            partition = "late" if late else str(producer % 4)
            if start == count // 2:
                halfway.set()
            items = [
                NewMessage(queue="q", partition=partition, payload=json.dumps({"n": producer * 10_000 + start + k}))
                for k in range(50)
            ]
            # Small and large calls, micro-batched and alone, from two processes.
            sizes = [50] if start % 100 else [1, 3, 46]
            for size in sizes:
                part, items = items[:size], items[size:]
                await sides[producer % 2].push(part)
            produced[partition] += 50

    async def newcomer(group: Consumers) -> None:
        await halfway.wait()
        await asyncio.gather(group.run(engine), group.run(other))

    groups = [Consumers(name, count * producers) for name in ("a", "b", "new")]
    await asyncio.wait_for(
        asyncio.gather(
            *[produce(n) for n in range(producers)],
            *[group.run(side) for group in groups[:2] for side in sides],
            newcomer(groups[2]),
        ),
        170,
    )
    assert "late" in produced
    for group in groups:
        group.check(produced)
    assert await sql.fetchval("select sum(depth) from queen.queues q, lateral queen.queue_depth(q.id) depth") == 0
