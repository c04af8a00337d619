"""One process of the crash test: pushes, pops, consumes and runs the services until it is killed.

Everything it is told goes to a log first, one line per write, so that the log holds after kill -9 whatever happened:
what was accepted, what was handed to it, and what it was about to acknowledge.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from queen.config import Settings
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from queen.errors import QueenError
from queen.model import QUEUE_MODE, Message, NewMessage, PopRequest
from tests.support.work import acks

QUEUE = "q"
GROUPS = (QUEUE_MODE, "g")
PARTITIONS = 8
LEASE = 2
OPTIONS = {
    "retry_limit": 2, "retry_delay": 20, "max_deliveries": 3, "partial_failure": "retry", "window_buffer": 1,
    "delayed_processing": 1, "max_wait_time_seconds": 12, "max_queue_size": 400, "retention_enabled": True,
    "retention_seconds": 3600, "completed_retention_seconds": 2, "lease_time": LEASE,
}  # fmt: skip


class Log:
    """Lines that are there once `note` returned: written at once, to a file that outlives the process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, kind: str, *fields: object) -> None:
        os.write(self._file, (json.dumps([kind, time.monotonic(), *fields]) + "\n").encode())


def fails(message: Message) -> bool:
    """Some messages can never be done."""
    return message.transaction_id.endswith("7")


class Worker:
    def __init__(self, engine: Engine, log: Log, name: str, seed: int) -> None:
        self.engine, self.log, self.name = engine, log, name
        self.rng = random.Random(seed)

    async def produce(self, number: int) -> None:
        """Messages under names of our own, in order within a partition; what fails is pushed again until accepted."""
        count = 0
        while True:
            partition = f"p{self.rng.randrange(PARTITIONS)}"
            later = self.rng.random() < 0.1
            names = [f"{'s' if later else 'm'}-{self.name}.{number}-{count + n}" for n in range(self.rng.randint(1, 5))]
            due = datetime.now(UTC) + timedelta(seconds=1) if later else None
            items = [
                NewMessage(queue=QUEUE, partition=partition, payload="1", transaction_id=name, deliver_at=due)
                for name in names
            ]
            while True:
                try:
                    await self.engine.push(items)
                    break
                except QueenError:
                    await asyncio.sleep(0.05)
            self.log.note("accepted", partition, names)
            count += len(names)
            await asyncio.sleep(self.rng.random() * 0.05)

    def received(self, messages: Sequence[Message]) -> None:
        first = messages[0]
        self.log.note(
            "received", first.group, first.partition, str(first.lease_id),
            [[message.seq, message.transaction_id] for message in messages],
        )  # fmt: skip

    def finishing(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.log.note("finishing", message.group, message.partition, message.transaction_id)

    async def pop(self, group: str) -> None:
        """Batches: the good ones are acknowledged up to the first that fails, which is told in a call of its own."""
        while True:
            with suppress(QueenError):
                found = await self.engine.pop(
                    PopRequest(queue=QUEUE, group=group, batch=self.rng.randint(1, 12), wait=1, lease_seconds=LEASE)
                )
                if not found:
                    continue
                self.received(found)
                await asyncio.sleep(self.rng.random() * 0.02)
                good = found[: next((place for place, message in enumerate(found) if fails(message)), len(found))]
                self.finishing(good)
                if good:
                    await self.engine.ack_messages(good)
                if len(good) < len(found):
                    await self.engine.ack(acks(found[len(good) : len(good) + 1], "failed", "never"))

    async def consume(self, group: str) -> None:
        """A consumer that prefetches: what it was given one by one counts, nothing else."""
        while True:
            with suppress(QueenError):
                request = PopRequest(queue=QUEUE, group=group, wait=1, lease_seconds=LEASE)
                async with self.engine.consume(request, prefetch=8) as consumer:
                    async for message in consumer:
                        self.received([message])
                        await asyncio.sleep(self.rng.random() * 0.01)
                        if fails(message):
                            await consumer.fail("never")
                        else:
                            self.finishing([message])

    async def serve(self) -> None:
        jobs = Jobs(self.engine, Settings())
        while True:
            for job in (jobs.scheduled, jobs.eviction, jobs.retention):
                with suppress(QueenError):
                    await job()
            await asyncio.sleep(0.3)


async def main(dsn: str, path: str, name: str, seed: int) -> None:
    async with Engine(Database(dsn, PoolOptions(size=4)), listen_url=None) as engine:
        worker = Worker(engine, Log(path), name, seed)
        async with asyncio.TaskGroup() as tasks:
            for number in range(2):
                tasks.create_task(worker.produce(number))
            for group in GROUPS:
                tasks.create_task(worker.pop(group))
                tasks.create_task(worker.consume(group))
            tasks.create_task(worker.serve())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
