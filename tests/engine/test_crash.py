"""kill -9 of PostgreSQL and of consumers under load: nothing accepted is missing or stored twice, order is kept."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.errors import QueenError
from queen.model import NewMessage, PopRequest
from tests.support.wait import eventually
from tests.support.work import connect

PARTITIONS = 20
BATCH = 25
# Takes the address and a file, and writes down whatever it is given: when, partition and seq.
CONSUMER = """
import asyncio, sys, time
from queen.db.pool import Database
from queen.engine import Engine
from queen.errors import QueenError
from queen.model import PopRequest

log = open(sys.argv[2], "a", buffering=1)

async def work():
    async with Engine(Database(sys.argv[1]), listen_url=None) as engine:
        while True:
            messages = await engine.pop(PopRequest(queue="q", group="g", batch=10, wait=5, lease_seconds=2))
            log.writelines(f"{time.time()} {m.partition} {m.seq}\\n" for m in messages)
            await asyncio.sleep(0.002)
            await engine.ack_messages(messages)

async def main():
    while True:
        try:
            await work()
        except (QueenError, OSError, asyncio.TimeoutError):
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


class Log:
    """The test's own record of what was accepted, on disk before it counts."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._unsynced: list[str] = []
        self.accepted: set[str] = set()

    def note(self, names: list[str]) -> None:
        self._unsynced += names

    def sync(self) -> None:
        names, self._unsynced = self._unsynced, []
        self._file.write("".join(f"{name}\n" for name in names))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.accepted.update(names)

    def close(self) -> None:
        if not self._file.closed:
            self.sync()
            self._file.close()


async def produce(engine: Engine, worker: int, log: Log, done: asyncio.Event) -> None:
    """Push batches with names of our own; what fails is pushed again under the same names until it is accepted."""
    number = 0
    while not done.is_set():
        items = [
            NewMessage(
                queue="q",
                partition=f"p{(worker + number) % PARTITIONS}",
                payload=json.dumps({"worker": worker, "n": number * BATCH + place}),
                transaction_id=f"{worker}-{number}-{place}",
            )
            for place in range(BATCH)
        ]
        try:
            await engine.push(items)
        except QueenError:
            await asyncio.sleep(0.02)
            continue
        log.note([str(item.transaction_id) for item in items])
        number += 1


async def consumer(dsn: str, received: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CONSUMER,
        dsn,
        str(received),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


async def end(worker: asyncio.subprocess.Process) -> None:
    """Kill -9, unless it ended by itself: work must come back either way."""
    with suppress(ProcessLookupError):
        worker.send_signal(signal.SIGKILL)
    await worker.wait()


async def torment(server: EmbeddedServer, received: Path, log: Log, *, kills: int, pause: float) -> float:
    """Kill the server and the consumers again and again; returns messages accepted per second while it was up."""
    started = time.monotonic()
    workers = [await consumer(server.dsn("postgres"), received) for _ in range(2)]
    try:
        for number in range(kills):
            before = len(log.accepted)

            def enough(least: int = before + 500) -> bool:
                log.sync()
                return len(log.accepted) > least

            await eventually(enough, limit=60)
            await asyncio.sleep(pause)
            victim = number % len(workers)
            await end(workers[victim])
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)
            workers[victim] = await consumer(server.dsn("postgres"), received)
        return len(log.accepted) / (time.monotonic() - started)
    finally:
        for worker in workers:
            await end(worker)


async def drain(engine: Engine) -> list[tuple[str, int, str]]:
    """Everything a fresh group gets: (partition, seq, transaction id)."""
    seen: list[tuple[str, int, str]] = []
    while messages := await engine.pop(PopRequest(queue="q", group="audit", batch=1000, partitions=50)):
        seen += [(message.partition, message.seq, message.transaction_id) for message in messages]
        await engine.ack_messages(messages)
    return seen


async def check(scratch: Path, *, kills: int, pause: float) -> float:
    server = await asyncio.to_thread(EmbeddedServer.start, scratch / "data")
    log, received = Log(scratch / "accepted.log"), scratch / "received.log"
    try:
        dsn = server.dsn("postgres")
        async with migrate.connect(dsn) as connection:
            await migrate.up(connection)
        async with Engine(Database(dsn, PoolOptions(size=6)), listen_url=None) as engine:
            await engine.register("q", "g")
            done = asyncio.Event()
            producing = [asyncio.create_task(produce(engine, worker, log, done)) for worker in range(4)]
            rate = await torment(server, received, log, kills=kills, pause=pause)
            done.set()
            await asyncio.gather(*producing)
            log.close()
            await verify(dsn, engine, log, received)
        return rate
    finally:
        log.close()
        await asyncio.to_thread(server.stop)


async def verify(dsn: str, engine: Engine, log: Log, received: Path) -> None:
    seen = await drain(engine)
    names = [name for _, _, name in seen]
    assert log.accepted - set(names) == set(), "accepted and gone"
    assert len(names) == len(set(names)), "stored twice"
    by_partition: dict[str, list[int]] = defaultdict(list)
    order: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for partition, seq, name in seen:
        by_partition[partition].append(seq)
        worker, number, place = name.split("-")
        order[partition, worker].append((int(number), int(place)))
    for seqs in by_partition.values():
        assert seqs == list(range(1, len(seqs) + 1)), "a hole or out of order"
    for pushed in order.values():
        assert pushed == sorted(pushed), "a producer's order is broken"

    given = read_received(received)
    assert sum(map(len, given.values())) > 100, "the consumers got next to nothing"

    # What the killed consumers held comes back by itself once its lease ran out.
    async def all_consumed() -> bool:
        while messages := await engine.pop(PopRequest(queue="q", group="g", batch=1000, partitions=50)):
            for message in messages:
                given[message.partition].append(message.seq)
            await engine.ack_messages(messages)
        async with connect(dsn) as connection:
            left = await connection.fetchval(
                "select sum(p.next_seq - 1 - c.last_consumed_seq) from queen.partition_consumers c"
                " join queen.partitions p on p.id = c.partition_id where c.consumer_group = 'g'"
            )
        return bool(left == 0)

    await eventually(all_consumed, limit=30, pause=0.05)
    for partition, seqs in by_partition.items():
        # Whatever came again, each was first met behind all that were in front of it.
        assert list(dict.fromkeys(given[partition])) == seqs, f"the group did not receive {partition} in order"


def read_received(path: Path) -> dict[str, list[int]]:
    """What the consumers were given, by partition, in the order of time; a line that a kill cut off does not count."""
    lines = [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    found: dict[str, list[int]] = defaultdict(list)
    for _, partition, seq in sorted((float(words[0]), words[1], int(words[2])) for words in lines if len(words) == 3):
        found[partition].append(seq)
    return found


@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_five_kills_under_load(scratch: Path) -> None:
    await check(scratch, kills=5, pause=0.3)


@pytest.mark.scale
@pytest.mark.chaos
@pytest.mark.timeout(3600)
async def test_forty_kills_at_a_thousand_messages_a_second(scratch: Path) -> None:
    rate = await check(scratch, kills=40, pause=2.0)
    sys.stdout.write(f"{rate:,.0f} accepted messages/s\n")
    assert rate >= 1000
