"""The commit horizon: read in small steps while others push, nothing is missed and no partition's order is broken."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.support.work import Sql, connect

PARTITIONS = 6
ISOLATIONS = ("read committed", "repeatable read", "serializable")
READ = "select partition_id, seq, pos, id from queen.messages where pos >= $1 and pos < $2 order by pos"
CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class Reader:
    """Reads the log by position, as far as a horizon says."""

    def __init__(self, dsn: str, horizon: Callable[[Sql], Awaitable[int]]) -> None:
        self._dsn = dsn
        self._horizon = horizon
        self._position = 0
        self.seen: list[tuple[int, int]] = []

    async def step(self, connection: Sql) -> None:
        reached = await self._horizon(connection)
        rows = await connection.fetch(READ, self._position, reached)
        self.seen += [(row["partition_id"], row["seq"]) for row in rows]
        self._position = max(self._position, reached)

    async def run(self, done: asyncio.Event) -> None:
        async with connect(self._dsn) as connection:
            while not done.is_set():
                await self.step(connection)
                await asyncio.sleep(0)

    async def finish(self) -> None:
        async with connect(self._dsn) as connection:
            await self.step(connection)


async def real(connection: Sql) -> int:
    return int(await connection.fetchval("select queen.advance_horizon()"))


async def bare(connection: Sql) -> int:
    """What one would do without announcements: trust the sequence."""
    return int(await connection.fetchval("select coalesce(pg_sequence_last_value('queen.message_pos'), 0)")) + 1


async def produce(dsn: str, worker: int, rounds: int) -> int:
    """Transactions of every isolation level with pauses, savepoints, rollbacks and two-phase commits."""
    choice = random.Random(worker)
    stored = 0
    async with connect(dsn) as connection:
        for turn in range(rounds):
            count = choice.randint(1, 3)
            ending = choice.choice(["commit", "commit", "commit", "rollback", "prepare"])
            try:
                kept = await one_transaction(connection, choice, count, ending, f"t{worker}-{turn}")
            except CONFLICTS:
                continue
            stored += kept
    return stored


async def one_transaction(connection: Sql, choice: random.Random, count: int, ending: str, name: str) -> int:
    await connection.execute(f"begin isolation level {choice.choice(ISOLATIONS)}")
    kept = 0
    try:
        for _ in range(count):
            if choice.random() < 0.3:
                await connection.execute("savepoint s")
                await push(connection, choice)
                await connection.execute("rollback to s")
            await push(connection, choice)
            kept += 1
            await asyncio.sleep(choice.random() * 0.004)
        if ending == "prepare":
            await connection.execute(f"prepare transaction '{name}'")
    except BaseException:
        await connection.execute("rollback")
        raise
    if ending == "prepare":
        await asyncio.sleep(choice.random() * 0.01)
        await connection.execute(f"commit prepared '{name}'")
    else:
        await connection.execute(ending)
    return 0 if ending == "rollback" else kept


async def push(connection: Sql, choice: random.Random) -> None:
    await connection.fetchval("select queen.push('q', $1, '1')", f"p{choice.randrange(PARTITIONS)}")


async def stress(dsn: str, reader: Reader, rounds: int) -> int:
    """Run producers and the reader beside an unrelated writer that stays open; returns how many were stored."""
    async with connect(dsn) as setup, connect(dsn) as unrelated:
        for number in range(PARTITIONS):
            await setup.fetchval("select queen.push('q', $1, '0')", f"p{number}")
        await setup.execute("create table unrelated (n int)")
        await unrelated.execute("begin; insert into unrelated values (1)")
        done = asyncio.Event()
        reading = asyncio.create_task(reader.run(done))
        await asyncio.gather(*(produce(dsn, worker, rounds) for worker in range(8)))
        done.set()
        await reading
        await reader.finish()
        await unrelated.execute("rollback")
        return int(await setup.fetchval("select count(*) from queen.messages"))


def out_of_order(seen: list[tuple[int, int]]) -> list[tuple[int, int]]:
    last: dict[int, int] = defaultdict(int)
    wrong = []
    for partition, seq in seen:
        if seq <= last[partition]:
            wrong.append((partition, seq))
        last[partition] = seq
    return wrong


async def test_none_is_missed_and_none_out_of_order(database: str) -> None:
    reader = Reader(database, real)
    stored = await stress(database, reader, rounds=15)
    assert len(reader.seen) == len(set(reader.seen)) == stored
    assert out_of_order(reader.seen) == []


async def test_trusting_the_sequence_would_miss_some(database: str) -> None:
    reader = Reader(database, bare)
    stored = await stress(database, reader, rounds=15)
    assert len(reader.seen) < stored


async def test_a_push_that_is_open_holds_the_horizon_and_its_end_lets_it_go(database: str) -> None:
    async with connect(database) as holder, connect(database) as other:
        await other.fetchval("select queen.push('q', 'a', '0')")
        await holder.execute("begin")
        await holder.fetchval("select queen.push('q', 'b', '1')")
        held = await real(other)
        await other.fetchval("select queen.push('q', 'a', '2')")
        assert await real(other) == held
        await holder.execute("commit")
        assert await real(other) > held + 1


async def test_it_never_goes_back(database: str) -> None:
    async with connect(database) as holder, connect(database) as other:
        reached = [await real(other)]
        for ending in ("commit", "rollback", "commit"):
            await holder.execute("begin")
            await holder.fetchval("select queen.push('q', 'a', '1')")
            reached.append(await real(other))
            await holder.execute(ending)
            reached.append(await real(other))
    assert reached == sorted(reached)


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_transaction_of_many_pushes_announces_once(database: str, isolation: str) -> None:
    async with connect(database) as connection:
        await connection.execute(f"begin isolation level {isolation}")
        for _ in range(50):
            await connection.fetchval("select queen.push('q', 'a', '1')")
        locks = await connection.fetchval(
            "select count(*) from pg_locks where locktype = 'advisory' and objsubid = 2 and pid = pg_backend_pid()"
        )
    assert locks == 1


async def test_it_is_on_disk_before_it_is_told(database: str) -> None:
    """Whatever the caller has set: a position that a crash takes back would be given to another message."""
    async with connect(database, synchronous_commit="off") as connection, connection.transaction():
        await connection.fetchval("select queen.push('q', 'a', '1')")
        await real(connection)
        assert await connection.fetchval("select current_setting('synchronous_commit')") == "on"
