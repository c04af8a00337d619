"""Producers: numbered messages, in order within each partition, pushed again under the same names until accepted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg

from queen.ids import uuid7
from queen.model import NewMessage
from torture.actor import TROUBLE, Actor

RUSH = 20
OWN = "outbox"


class Producer(Actor):
    """Pushes singles and batches, with and without ids of its own, some of them for later."""

    _rushed = 0

    async def run(self) -> None:
        """Push until the run ends; what was not accepted by then is nobody's promise."""
        count = 0
        while self.running:
            if not self.queue.quiet:
                await self.room()
            items = self._items(count)
            count += len(items)
            names = [self.context.name_of(item) for item in items]
            later = items[0].deliver_at is not None
            self.history.note("produce", self.name, items[0].queue, items[0].partition, names, later)
            again = False
            while self.running:
                try:
                    await self.client.push_prepared(items, 0.5, again=again)
                    break
                except TROUBLE:
                    again = True
                    await self.pause(0.02, 0.2)
            await self._rest()

    async def _rest(self) -> None:
        """In a rush a few pushes follow each other closely; a quiet queue gets one now and then."""
        rushing = self.context.phase == "rush"
        self._rushed = self._rushed + 1 if rushing else 0
        if self.queue.quiet:
            await self.pause(0.05, 0.4)
        elif rushing and self._rushed < RUSH:
            await self.pause(0.0, 0.02)
        else:
            await self.pause(0.01, 0.12 * (10.0 if rushing else self.context.plan.pace))

    def _items(self, count: int) -> list[NewMessage]:
        rng = self.rng
        partition = f"p{rng.randrange(self.queue.partitions)}"
        later = rng.random() < 0.05
        due = datetime.now(UTC) + timedelta(seconds=rng.uniform(0.2, 1.5)) if later else None
        anonymous = rng.random() < 0.3
        return [
            NewMessage(
                queue=self.queue.name,
                partition=partition,
                payload=f'{{"x": "{"y" * rng.choice((0, 10, 200))}"}}',
                transaction_id=None if anonymous else f"{self.name}-{count + place}",
                id=uuid7(),
                deliver_at=due,
            )
            for place in range(rng.choice((1, 1, 1, 3, 8, 20) if self.context.phase != "rush" else (1, 2)))
        ]


class Outbox(Actor):
    """An application with rows of its own: a message and a row in one transaction, committed or not.

    It has a partition to itself, so that nobody's push wakes a group that an acknowledgement beside its own has lulled.
    """

    async def run(self) -> None:
        """Open transactions, some of them slow, until the run ends."""
        count = 0
        while self.running:
            try:
                connection = await asyncpg.connect(self.context.database, timeout=5, command_timeout=10)
            except (OSError, TimeoutError, asyncpg.PostgresError):
                await self.pause(0.1, 0.3)
                continue
            try:
                while self.running:
                    await self._transact(connection, f"{self.name}-o{count}")
                    count += 1
                    await self.pause(0.02, 0.3)
            except (*TROUBLE, asyncpg.PostgresError, asyncpg.InterfaceError):
                count += 1
            finally:
                connection.terminate()

    async def _transact(self, connection: asyncpg.Connection[asyncpg.Record], name: str) -> None:
        transaction = connection.transaction()
        await transaction.start()
        await self.client.push(
            self.queue.name, {"outbox": name}, partition=OWN, transaction_id=name, connection=connection
        )
        await connection.execute("insert into torture.outbox (name) values ($1)", name)
        if self.rng.random() < 0.6:
            await asyncio.sleep(self.rng.uniform(0.02, 0.3))
        self.history.note("outbox", name)
        if self.rng.random() < 0.2:
            await transaction.rollback()
        else:
            await transaction.commit()
