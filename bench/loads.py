"""The loads of `bench/engine.py`: each runs for some seconds and says how many messages it did in how long."""

from __future__ import annotations

import asyncio
import io
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import psutil
from cores import seconds_of

from queen.engine import Engine
from queen.ids import as_callers, uuid7s
from queen.model import Ack, Message, NewMessage, PopRequest

if TYPE_CHECKING:
    from asyncpg.prepared_stmt import PreparedStatement

    Pool = asyncpg.Pool[asyncpg.Record]

PAYLOAD = json.dumps({"orderId": 123_456, "note": "x" * 165})
PARTITIONS = 200
QUEUE = "bench"
LIMITED = "limited"
ACKS = "acks"
GROUP = "bench"
BACKGROUND = ("checkpointer", "background writer", "walwriter", "autovacuum", "io worker", "logical replication")
# Acknowledged at once, by id or by lease.
MANY = 10_000


class Server:
    """The processor time that a PostgreSQL server spends on its clients."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def seconds(self) -> float:
        """What the processes of its living connections have used so far, without what goes on in the background."""
        return sum(seconds_of(process) for process in self._process.children() if _serves_a_client(process))


def _serves_a_client(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return not any(word in " ".join(process.cmdline()) for word in BACKGROUND)
    return False


class Done(NamedTuple):
    """How many messages, and in how many seconds."""

    count: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.count / self.seconds


@cache
def sql(name: str) -> str:
    """The text of bench/sql/<name>.sql."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


async def race(seconds: float, workers: int, work: Callable[[int, int], Awaitable[int]]) -> Done:
    """Let workers repeat `work(worker, turn)` until time is up; returns what they did."""
    end = time.perf_counter() + seconds

    async def run(worker: int) -> int:
        done = turn = 0
        while time.perf_counter() < end:
            count = await work(worker, turn)
            if count == 0:
                break
            done += count
            turn += 1
        return done

    started = time.perf_counter()
    done = await asyncio.gather(*(run(worker) for worker in range(workers)))
    return Done(sum(done), time.perf_counter() - started)


async def open_pool(dsn: str) -> Pool:
    """Connections that, like ours, are not reset after every use: that would be a round trip more."""

    async def keep(_connection: object) -> None:
        return None

    return await asyncpg.create_pool(dsn, min_size=4, max_size=32, reset=keep)


class Ceilings:
    """What the same PostgreSQL does with bare rows."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._seqs: dict[int, int] = {}

    def _next(self, partition: int, count: int) -> range:
        first = self._seqs.get(partition, 1)
        self._seqs[partition] = first + count
        return range(first, first + count)

    async def insert(self, seconds: float, batch: int, workers: int) -> Done:
        """Multi-row INSERT with the same two unique indexes."""

        async def work(worker: int, turn: int) -> int:
            partition = worker * 50 + turn % 50
            ids = uuid7s(batch)
            async with self._pool.acquire() as connection:
                await connection.execute(
                    sql("insert"),
                    [partition] * batch,
                    list(self._next(partition, batch)),
                    ids,
                    [str(new) for new in ids],
                    [PAYLOAD] * batch,
                )
            return batch

        return await race(seconds, workers, work)

    async def copy(self, seconds: float, batch: int, workers: int) -> Done:
        """COPY in text form."""

        async def work(worker: int, turn: int) -> int:
            partition = 10_000 + worker * 50 + turn % 50
            rows = zip(self._next(partition, batch), uuid7s(batch), strict=True)
            text = "".join(f"{partition}\t{s}\t{s}\t{i}\t2026-01-01\t{i}\t{PAYLOAD}\n" for s, i in rows)
            async with self._pool.acquire() as connection:
                await connection.copy_to_table(
                    "messages",
                    schema_name="bare",
                    source=io.BytesIO(text.encode()),
                    columns=["partition_id", "seq", "pos", "id", "created_at", "transaction_id", "payload"],
                )
            return batch

        return await race(seconds, workers, work)

    async def rows(self, seconds: float, workers: int) -> Done:
        """Connections that commit one bare row each, prepared and kept."""
        async with self._prepared("insert_one", workers) as statements:

            async def work(worker: int, _turn: int) -> int:
                [new] = uuid7s(1)
                seq = self._next(20_000 + worker, 1)[0]
                await statements[worker].fetch(20_000 + worker, seq, new, str(new), PAYLOAD)
                return 1

            return await race(seconds, workers, work)

    async def cursors(self, seconds: float, workers: int) -> Done:
        """Connections that commit one bare cursor update each, on rows of their own, prepared and kept."""
        async with self._prepared("move_cursor", workers) as statements:

            async def work(worker: int, _turn: int) -> int:
                await statements[worker].fetch(worker + 1)
                return 1

            return await race(seconds, workers, work)

    @asynccontextmanager
    async def _prepared(self, name: str, workers: int) -> AsyncIterator[list[PreparedStatement]]:
        """One connection for each worker, which a pool would reset after every use, with the statement prepared."""
        async with AsyncExitStack() as stack:
            connections = [await stack.enter_async_context(self._pool.acquire()) for _ in range(workers)]
            yield [await connection.prepare(sql(name)) for connection in connections]


class Verbs:
    """What our verbs do on it, with default settings."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._popped: list[list[Message]] = []

    async def prepare(self) -> None:
        """Make the queue, its partitions and its group."""
        await self._engine.push(
            [NewMessage(queue=QUEUE, partition=f"p{n}", payload=PAYLOAD) for n in range(PARTITIONS)]
        )
        await self._engine.register(QUEUE, GROUP)
        await self._engine.queues.configure(LIMITED, {"max_queue_size": 100_000_000})
        await self._engine.push(
            [NewMessage(queue=LIMITED, partition=f"p{n}", payload=PAYLOAD) for n in range(PARTITIONS)]
        )
        await self._engine.register(LIMITED, GROUP)

    async def push(self, seconds: float, batch: int, workers: int, queue: str = QUEUE) -> Done:
        """Push batches to one partition each, with transaction ids of the caller's."""

        async def work(worker: int, turn: int) -> int:
            partition = f"p{(worker * 7 + turn) % PARTITIONS}"
            names = [as_callers(new) for new in uuid7s(batch)]
            await self._engine.push(
                [NewMessage(queue=queue, partition=partition, payload=PAYLOAD, transaction_id=name) for name in names]
            )
            return batch

        return await race(seconds, workers, work)

    async def pop_ack(self, seconds: float, batch: int, workers: int) -> Done:
        """Pop a batch and acknowledge it, again and again."""

        async def work(_worker: int, _turn: int) -> int:
            messages = await self._engine.pop(PopRequest(queue=QUEUE, group=GROUP, batch=batch))
            await self._engine.ack_messages(messages)
            return len(messages)

        return await race(seconds, workers, work)

    async def consume(self, seconds: float, workers: int) -> Done:
        """Consumers that work message by message, each acknowledged before the next is given, with a prefetch of 64."""
        consumers = [self._engine.consume(PopRequest(queue=QUEUE, group=GROUP), prefetch=64) for _ in range(workers)]

        async def work(worker: int, _turn: int) -> int:
            return 1 if await consumers[worker].next() is not None else 0

        done = await race(seconds, workers, work)
        for consumer in consumers:
            await consumer.close()
        return done

    async def pop_many(self, times: int) -> None:
        """Have so many batches popped, for `ack_many`."""
        for number in range(times):
            await self._engine.push(
                [NewMessage(queue=ACKS, partition=f"p{number}", payload=PAYLOAD) for _ in range(MANY)]
            )
            self._popped.append(await self._engine.pop(PopRequest(queue=ACKS, batch=MANY)))

    async def ack_many(self, *, failed: int, by_id: bool) -> Done:
        """Acknowledge each batch popped before in one call, so many of its messages as failed."""
        popped, self._popped = self._popped, []
        told = [outcomes(messages, failed) for messages in popped]
        started = time.perf_counter()
        for messages, acks in zip(popped, told, strict=True):
            if by_id:
                await self._engine.ack(acks)
            else:
                await self._engine.ack_messages(messages)
        return Done(sum(map(len, popped)), time.perf_counter() - started)

    async def fill(self, count: int) -> None:
        """Have so many messages more waiting, spread over all partitions."""
        for _ in range(0, count, 5 * PARTITIONS):
            await self._engine.push(
                [NewMessage(queue=QUEUE, partition=f"p{n}", payload=PAYLOAD) for n in range(PARTITIONS)] * 5
            )


def outcomes(messages: Sequence[Message], failed: int) -> list[Ack]:
    """Acknowledgements by transaction id, so many of them as failed, from the middle on."""
    bad = range(len(messages) // 2, len(messages) // 2 + failed)
    return [
        Ack(
            partition_id=message.partition_id,
            transaction_id=message.transaction_id,
            group=message.group,
            lease_id=message.lease_id,
            status="failed" if place in bad else "completed",
        )
        for place, message in enumerate(messages)
    ]


async def ack_rates(
    pool: Pool, engine: Engine, server: Server, batch: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """Messages acknowledged by 8 connections in batches, a second and a second of the server: the old way and ours."""
    rates: dict[str, list[tuple[float, float]]] = {"old": [], "ours": []}
    for turn in range(rounds + 1):
        await Verbs(engine).fill(batch * PARTITIONS)
        leased = uuid7s(PARTITIONS - 10)
        lanes = [await pool.fetchrow(sql("pop_lane"), QUEUE, GROUP, batch, lease) for lease in leased]
        handed = [uuid7s(batch) for _ in leased]
        for ids in handed:
            await pool.execute(sql("lease_status"), ids)
        calls: dict[str, list[tuple[Any, ...]]] = {
            "old": [(sql("ack_status"), ids, place + 1) for place, ids in enumerate(handed)],
            "ours": [
                (sql("ack_lane"), lane["partition_id"], GROUP, lease, lane["last_seq"])
                for lease, lane in zip(leased, lanes, strict=True)
                if lane is not None
            ],
        }
        assert len(calls["ours"]) == len(leased)
        for way in ("old", "ours") if turn % 2 else ("ours", "old"):
            before = server.seconds()
            done = await race_through(pool, calls[way], 8)
            used = max(server.seconds() - before, 0.01)
            if turn:  # the first round only warms up
                rates[way].append((done.count * batch / done.seconds, done.count * batch / used))
    return {
        way: (statistics.median(rate for rate, _ in values), statistics.median(per_cpu for _, per_cpu in values))
        for way, values in rates.items()
    }


async def race_through(pool: Pool, calls: list[tuple[Any, ...]], workers: int) -> Done:
    """Have connections make these calls, each the next one."""
    rest = iter(calls)

    async def run() -> None:
        async with pool.acquire() as connection:
            for statement, *values in rest:
                await connection.execute(statement, *values)

    started = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(workers)))
    return Done(len(calls), time.perf_counter() - started)


async def ack_cost(pool: Pool, engine: Engine, batch: int, times: int) -> dict[str, dict[str, Any]]:
    """Median time, rows written and write-ahead log of one batch acknowledgement: the old way and ours.

    Both on one connection, in turns, so that the server's counters belong to the statement just run.
    """
    await Verbs(engine).fill(batch * (times + 10))
    samples: dict[str, list[tuple[float, int, int]]] = {"old": [], "ours": []}
    async with pool.acquire() as connection:

        async def counters() -> tuple[int, int]:
            await connection.execute(sql("flush_stats"))
            return await connection.fetchval(sql("wal")), await connection.fetchval(sql("rows_written"))

        for turn in range(times):
            ids = uuid7s(batch)
            [lease] = uuid7s(1)
            await connection.execute(sql("lease_status"), ids)
            lane = await connection.fetchrow(sql("pop_lane"), QUEUE, GROUP, batch, lease)
            calls = {
                "old": (sql("ack_status"), ids, turn % 1000 + 1),
                "ours": (sql("ack_lane"), lane["partition_id"], GROUP, lease, lane["last_seq"]),
            }
            for way in ("old", "ours") if turn % 2 else ("ours", "old"):
                wal, rows = await counters()
                started = time.perf_counter()
                await connection.execute(*calls[way])
                spent = time.perf_counter() - started
                after_wal, after_rows = await counters()
                samples[way].append((spent, after_rows - rows, after_wal - wal))
    return {
        way: dict(zip(("seconds", "rows", "wal"), map(statistics.median, zip(*values, strict=True)), strict=True))
        for way, values in samples.items()
    }
