"""A move under load, on and back: nothing is lost, order is kept, what was finished is not handed out again."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

import asyncpg
import pytest

from queen.engine import Engine
from queen.errors import QueenError
from queen.model import Ack, NewMessage, PopRequest
from queen.transfer.follow import copy, one_round
from queen.transfer.generator import Sizes, generate
from queen.transfer.link import open_link
from queen.transfer.model import Quiet, Version
from queen.transfer.prepare import prepare
from queen.transfer.verify import verify
from tests.support.wait import eventually
from tests.transfer import earlier
from tests.transfer.earlier import GONE, V2, V3, Batch
from tests.transfer.places import begin, hurry

T = TypeVar("T")
GROUPS = ("a", "b")
PARTITIONS = 6


class World:
    """Who produces and consumes, on whichever side is live, and what they saw."""

    def __init__(self, dsn: str, version: Version) -> None:
        self.dsn = dsn
        self.old = V3() if version == "v3" else V2()
        self.names: dict[UUID, str] = {}
        self.sent: dict[str, int] = defaultdict(int)
        self.received: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.finished: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.held: list[Batch] = []
        self.stopped = asyncio.Event()

    def see(self, name: str, group: str, numbers: list[int]) -> None:
        again = self.finished[name, group] & set(numbers)
        assert not again, f"{group} got {again} of {name} again"
        self.received[name, group] += [n for n in numbers if n not in self.received[name, group]]

    # ---- the earlier version

    async def old_producer(self, partition: UUID) -> None:
        """One for each partition: the earlier versions lose order, and messages, when two commit out of turn."""
        connection = await asyncpg.connect(self.dsn)
        with suppress(*GONE):
            while not self.stopped.is_set():
                name = self.names[partition]
                await patiently(lambda number=self.sent[name] + 1: earlier.push(connection, partition, number))
                self.sent[name] += 1
                await asyncio.sleep(0.003)
        await connection.close()

    async def old_consumer(self, group: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        with suppress(*GONE):
            while not self.stopped.is_set():
                batch = await patiently(lambda: self.old.pop(connection, group, 3))
                if batch is None:
                    await asyncio.sleep(0.01)
                    continue
                self.see(self.names[batch.partition], group, batch.numbers)
                self.held.append(batch)
                await asyncio.sleep(0.002)
                assert await patiently(lambda taken=batch: self.old.ack(connection, taken))
                self.held.remove(batch)
                self.finished[self.names[batch.partition], group] |= set(batch.numbers)
        await connection.close()

    def start_old(self) -> list[asyncio.Task[None]]:
        self.stopped.clear()
        tasks = [asyncio.create_task(self.old_producer(each)) for each in self.names]
        return tasks + [asyncio.create_task(self.old_consumer(group)) for group in GROUPS for _ in range(2)]

    # ---- this one

    async def new_producer(self, engine: Engine, name: str) -> None:
        while not self.stopped.is_set():
            number = self.sent[name] + 1
            message = NewMessage(queue="live", partition=name, payload=json.dumps({"n": number}))
            await engine.push([message])
            self.sent[name] = number
            await asyncio.sleep(0.003)

    async def new_consumer(self, engine: Engine, group: str) -> None:
        while not self.stopped.is_set():
            messages = await engine.pop(PopRequest(queue="live", group=group, batch=3))
            if not messages:
                await asyncio.sleep(0.01)
                continue
            numbers = [int(json.loads(message.payload)["n"]) for message in messages]
            name = messages[0].partition
            self.see(name, group, numbers)
            acked = await engine.ack_messages(messages)
            assert all(each.ok for each in acked), acked
            self.finished[name, group] |= set(numbers)

    def start_new(self, engine: Engine) -> list[asyncio.Task[None]]:
        self.stopped.clear()
        tasks = [asyncio.create_task(self.new_producer(engine, name)) for name in self.names.values()]
        return tasks + [asyncio.create_task(self.new_consumer(engine, group)) for group in GROUPS for _ in range(2)]

    async def finish_held(self, engine: Engine, version: Version) -> None:
        """What consumers held when the sides changed is acknowledged on the other side, by the same token."""
        for batch in self.held:
            former = await engine.former_partitions([batch.partition])
            lease = UUID(batch.token) if version == "v3" else None
            acks = [
                Ack(partition_id=former[batch.partition], transaction_id=f"{batch.partition}-{n}", group=batch.group,
                    lease_id=lease, status="completed")
                for n in batch.numbers
            ]  # fmt: skip
            assert [each.verdict for each in await engine.ack(acks)] == ["acked"] * len(acks)
            self.finished[self.names[batch.partition], batch.group] |= set(batch.numbers)
        self.held.clear()


async def patiently(work: Callable[..., Awaitable[T]]) -> T:
    """Try again after a deadlock, as any code does that locks rows."""
    while True:
        with suppress(asyncpg.DeadlockDetectedError):
            return await work()


async def queen(*arguments: str) -> str:
    """Run the command and return what it prints."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "queen", "migrate", *arguments, stdout=PIPE)
    told, _ = await asyncio.wait_for(process.communicate(), 100)
    assert process.returncode == 0
    return told.decode()


async def settle(tasks: list[asyncio.Task[None]], *expected: type[BaseException]) -> None:
    """Let workers end; those that met the change of sides end with what it gave them."""
    _, left = await asyncio.wait(tasks, timeout=10)
    for task in left:
        task.cancel()
    for told in await asyncio.gather(*tasks, return_exceptions=True):
        assert told is None or isinstance(told, (asyncio.CancelledError, *expected)), repr(told)


@pytest.mark.parametrize("version", ["v3", "v2"])
async def test_there_and_back_under_load(database: str, version: Version) -> None:
    await hurry(database)
    await generate(database, version, Sizes(queues=2, partitions=4, messages=60, groups=2), odd=False)
    world = World(database, version)
    connection = await asyncpg.connect(database)
    world.names = await earlier.found(connection, version, PARTITIONS, GROUPS)
    await connection.close()
    await begin(database, database, version)
    tasks = world.start_old()
    await eventually(lambda: sum(world.sent.values()) > 60)

    async with open_link(version, database) as link:
        await prepare(link)
        await copy(link, Quiet())
        sent = sum(world.sent.values())
        await eventually(lambda: sum(world.sent.values()) > sent + 100)
        await one_round(link)
        report = await verify(link)
        assert report.passed, report.differences[:5]
        sent = sum(world.sent.values())
        await eventually(lambda: sum(world.sent.values()) > sent + 50)
    assert re.search(r"writers waited \d+\.\d+ s", await queen(f"from-{version}", "--source", database, "cutover"))
    world.stopped.set()
    await settle(tasks)
    on_old = sum(world.sent.values())

    engine = Engine.connect(database)
    await world.finish_held(engine, version)
    tasks = world.start_new(engine)
    await eventually(lambda: sum(world.sent.values()) > on_old + 150, limit=60)
    told = await queen(f"from-{version}", "--source", database, "rollback", "--yes")
    assert re.search(r"writers waited \d+\.\d+ s", told)
    world.stopped.set()
    await settle(tasks, QueenError, asyncpg.PostgresError)
    await engine.close()

    # The earlier code goes on; leases that consumers of the other side held run out there as they would have here.
    connection = await asyncpg.connect(database)
    if version == "v3":
        await connection.execute("update queen.partition_consumers set lease_expires_at = now() - interval '1 second'")
    else:
        await connection.execute("update queen.partition_leases set released_at = now()")
    await connection.close()
    sent = sum(world.sent.values())
    tasks = world.start_old()
    await eventually(lambda: sum(world.sent.values()) > sent + 60, limit=60)
    wanted = {(name, group): world.sent[name] for name in world.names.values() for group in GROUPS}

    def drained() -> bool:
        return all(len(world.finished[key]) >= count for key, count in wanted.items())

    await eventually(drained, limit=60)
    world.stopped.set()
    await settle(tasks)
    for key, count in wanted.items():
        seen = world.received[key]
        assert seen[:count] == list(range(1, count + 1)), (key, seen)
