"""Consumers killed -9 in the middle: nothing lost, order kept, and no dead letter of a message that nobody received."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from queen.engine import Engine
from tests.server.running import run_broker
from tests.support.clock import Clock
from tests.support.tree import ROOT
from tests.support.work import Sql, numbers, pop, push

pytestmark = pytest.mark.chaos

CONSUMERS = 24
LANES = [f"p{number}" for number in range(30)]
# Takes URL, PREFETCH and SEED and says "partition number" on a line of its own for every message it is given.
# A message that can be divided by seven fails the first time. With the seed 0 each of the consumers works on as
# many messages as the number of its partition, three at most, and then on one that never ends.
WORKER = """
import asyncio, random, sys
import queen

url, prefetch, chance = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3]))
stuck = sys.argv[3] == "0"

async def work(message):
    number = message.data["n"]
    print(message.partition, number, flush=True)
    if stuck and number > int(message.partition[1:]) % 4:
        await asyncio.Event().wait()
    await asyncio.sleep(chance.random() * 0.004)
    if number % 7 == 0 and message.retry_count == 0:
        raise ValueError("the first time")

async def singles(q):
    while True:
        for message in await q.pop("q", wait=30):
            await work(message)
            await q.ack(message)

async def main():
    async with queen.connect(url) as q:
        if prefetch == 0:
            await asyncio.gather(*(singles(q) for _ in range(24)))
        await q.consume("q", work, prefetch=prefetch, concurrency=24, signals=False)

asyncio.run(main())
"""


@asynccontextmanager
async def worker(url: str, prefetch: int, seed: int) -> AsyncIterator[asyncio.StreamReader]:
    """What a worker says; it is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, url, str(prefetch), str(seed), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            yield process.stdout
    finally:
        process.kill()
        await process.wait()


def read(said: bytes) -> list[tuple[str, int]]:
    """Whole lines of what a worker said."""
    return [(name, int(number)) for name, number in re.findall(r"^(p\d+) (\d+)\n", said.decode(), re.MULTILINE)]


@pytest.mark.parametrize("prefetch", [0, 1, 16], ids=["single pops", "no prefetch", "prefetch 16"])
async def test_only_what_somebody_received_counts_as_delivered(
    engine: Engine, database: str, sql: Sql, clock: Clock, prefetch: int
) -> None:
    await engine.queues.configure("q", {"max_deliveries": 1})
    for name in LANES:
        await push(engine, *range(1, 21), partition=name)
    given = list[tuple[str, int]]()
    async with worker(database, prefetch, 0) as said:
        while sum(number > int(name[1:]) % 4 for name, number in given) < CONSUMERS:
            given += read(await said.readline())
    await clock.advance(1000)
    rest: dict[str, list[int]] = defaultdict(list)
    while got := await pop(engine, 1000, partitions=100):
        await engine.ack_messages(got)
        for message in got:
            rest[message.partition] += numbers([message])
    last = dict(given)  # what each partition's consumer had in its hands, or had finished last
    stuck = {(name, number) for name, number in last.items() if number > int(name[1:]) % 4}
    assert len(stuck) == CONSUMERS
    buried = await buried_of(sql)
    assert buried <= stuck
    assert buried, "where nothing was finished the message at hand was the first of its pop"
    if prefetch < 2:
        assert buried == stuck
    for name in LANES:
        begins = last.get(name, 0) + ((name, last.get(name, 0)) not in stuck or (name, last[name]) in buried)
        assert rest[name] == list(range(begins, 21)), name


async def buried_of(sql: Sql) -> set[tuple[str, int]]:
    """The dead letters, as partition and number."""
    rows = await sql.fetch(
        "select p.name, (d.payload ->> 'n')::int as n from queen.dead_letter_queue d"
        " join queen.partitions p on p.id = d.partition_id"
    )
    return {(row["name"], row["n"]) for row in rows}


@pytest.mark.parametrize("over", ["database", "broker"])
async def test_workers_killed_again_and_again(
    engine: Engine, database: str, sql: Sql, clock: Clock, tmp_path: Path, over: str
) -> None:
    """With a maximum of one delivery and one retry: what was not given comes in order, a first failure is no end."""
    await engine.queues.configure("q", {"max_deliveries": 1, "retry_limit": 1})
    for name in LANES:
        await push(engine, *range(1, 41), partition=name)
    rounds: list[list[tuple[str, int]]] = []
    for seed in (1, 2, 3):
        if over == "broker":
            with run_broker(database, tmp_path / str(seed)) as broker:
                rounds.append(await killed(broker.url, seed))
        else:
            rounds.append(await killed(database, seed))
        await clock.advance(1000)
    while got := await pop(engine, 1000, partitions=100):
        await engine.ack_messages(got)
        rounds.append([(message.partition, number) for message in got for number in numbers([message])])
    await check(sql, rounds)


async def killed(url: str, seed: int) -> list[tuple[str, int]]:
    """What a worker was given until it was killed at some point."""
    given = list[tuple[str, int]]()
    async with worker(url, 16, seed) as said:
        for _ in range(Random(seed).randrange(50, 350)):
            given += read(await said.readline())
    return given + read(await said.read())


async def check(sql: Sql, rounds: Sequence[Sequence[tuple[str, int]]]) -> None:
    """Every message was given in order, once, or again because it failed or its worker was killed."""
    unanswered = {
        (row["name"], row["batch_from"])
        for row in await sql.fetch(
            "select p.name, d.batch_from from queen.deliveries d join queen.partitions p on p.id = d.partition_id"
            " where d.outcome = 'expired'"
        )
    }
    buried, given = await buried_of(sql), {one for part in rounds for one in part}
    errors = await sql.fetch("select distinct error_message from queen.dead_letter_queue")
    assert {row["error_message"] for row in errors} <= {"lease expired 1 times"}
    for name in LANES:
        # Beside what was received only the message that a lost answer had first can have died of it.
        missing = {number for number in range(1, 41) if (name, number) not in given}
        assert {(name, number) for number in missing} <= buried & unanswered
        assert {(partition, number) for partition, number in buried if partition == name} <= given | unanswered
        before = 0
        for part in rounds:
            numbers_ = [number for partition, number in part if partition == name]
            for number in numbers_:
                assert before <= number, "given again after the next one"
                skipped = set(range(before + 1, number)) - missing
                assert not skipped, f"{skipped} were given after {number}"
                before = number
            repeated = [number for number in set(numbers_) if numbers_.count(number) > 1]
            assert all(number % 7 == 0 for number in repeated)
        assert before == 40 or (name, 40) in buried
