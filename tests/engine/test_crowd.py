"""Crowds against each other, and a crowd that is killed: in order and one at a time all the same."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict

from queen.engine import Engine
from queen.model import PopRequest
from tests.support.work import Sql, acks, leased, numbers, pop, push, runs

# A process with a crowd: says on a line of its own what is acknowledged, "partition number".
CROWD = """
import asyncio, json, sys
from queen.engine import Engine, ahead
from queen.model import PopRequest

ahead._AIM = 1e9

async def work(engine):
    while messages := await engine.pop(PopRequest(queue="q", lease_seconds=6)):
        await engine.ack_messages(messages)
        print(messages[0].partition, json.loads(messages[0].payload)["n"], flush=True)

async def main():
    async with Engine.connect(sys.argv[1]) as engine:
        await asyncio.gather(*(work(engine) for _ in range(24)))

asyncio.run(main())
"""


async def test_two_processes_and_a_crowd_in_each_work_in_order_and_one_at_a_time(
    engine: Engine, other: Engine, sql: Sql
) -> None:
    """Messages fail, consumers go away in the middle, acks are repeated and go to the other process."""
    names, count = [f"p{number}" for number in range(60)], 40
    for name in names:
        await push(engine, *range(1, count + 1), partition=name)
    working: set[str] = set()
    done: dict[str, list[int]] = defaultdict(list)
    failures = 0

    async def work(mine: Engine, theirs: Engine, worker: int) -> None:
        nonlocal failures
        turn = 0
        while sum(map(len, done.values())) < len(names) * count:
            turn += 1
            asking = asyncio.create_task(mine.pop(PopRequest(queue="q", wait=0.1)))
            if worker % 8 == 0 and turn % 5 == 0:
                await asyncio.sleep(0)
                asking.cancel()
            try:
                got = await asking
            except asyncio.CancelledError:
                continue
            for message in got:
                assert message.partition not in working
                working.add(message.partition)
                if turn % 3 == 0:
                    await asyncio.sleep(0)
                working.remove(message.partition)
                if worker % 4 == 1 and turn % 7 == 0:
                    failures += 1
                    await mine.ack(acks([message], "retry"))
                    continue
                done[message.partition] += numbers([message])
                acker = theirs if worker % 16 == 2 else mine
                assert [acked.verdict for acked in await acker.ack_messages([message])] == ["acked"]

    async with asyncio.timeout(60):
        await asyncio.gather(
            *(work(engine, other, worker) for worker in range(24)),
            *(work(other, engine, worker) for worker in range(24)),
        )
    assert done == {name: list(range(1, count + 1)) for name in names}
    assert failures
    assert max(await runs(sql)) > 1


async def test_after_a_kill_everything_not_acknowledged_comes_back_in_order(
    engine: Engine, database: str, sql: Sql
) -> None:
    names, count = [f"p{number}" for number in range(40)], 500
    for name in names:
        await push(engine, *range(1, count + 1), partition=name)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CROWD, database, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged: dict[str, list[int]] = defaultdict(list)
    try:
        async with asyncio.timeout(60):
            for _ in range(2000):
                name, number = (await process.stdout.readline()).decode().split()
                acknowledged[name].append(int(number))
    finally:
        process.kill()
    for line in (await process.stdout.read()).decode().splitlines(keepends=True):
        if line.endswith("\n"):
            name, number = line.split()
            acknowledged[name].append(int(number))
    await process.wait()
    assert max(await leased(sql)) > 1, "nothing was popped ahead"

    rest: dict[str, list[int]] = defaultdict(list)
    while any(len(rest[name]) == 0 or rest[name][-1] < count for name in names):
        got = await pop(engine, 1000, partitions=40, wait=20)
        assert got, "what the killed process held did not come back"
        await engine.ack_messages(got)
        for message in got:
            rest[message.partition] += numbers([message])
    for name in names:
        before, after = acknowledged[name], rest[name]
        assert before == list(range(1, len(before) + 1))
        assert after == list(range(after[0], count + 1))
        # At most one was acknowledged and the process killed before it could say so.
        assert after[0] - len(before) in (1, 2)
