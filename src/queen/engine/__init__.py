"""The engine: ordered queues on PostgreSQL, one method per verb. Knows nothing of HTTP.

async with Engine.connect("postgresql://...") as engine:
    await engine.push([NewMessage(queue="orders", partition="customer-456", payload='{"n": 1}')])
    messages = await engine.pop(PopRequest(queue="orders", batch=10))
    await engine.ack_messages(messages)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Self
from uuid import UUID

from queen import telemetry
from queen.db.listen import Listener
from queen.db.pool import Database, Isolation, PoolOptions
from queen.engine.ack import Acker
from queen.engine.batching import BatchSizes
from queen.engine.consume import Consumer
from queen.engine.dead_letters import DeadLetters, Selection
from queen.engine.encryption import KeyRing
from queen.engine.pop import Popper
from queen.engine.push import Pusher
from queen.engine.queues import Queues
from queen.engine.transaction import Committed, RolledBack, Transactor
from queen.engine.wake import Wake
from queen.model import Ack, Acked, LeaseAck, Message, NewMessage, PopRequest, Pushed, Renewal, Standing
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection

__all__ = ["Committed", "Consumer", "Engine", "KeyRing", "RolledBack", "Selection"]


class Engine:
    """Queues on one database, for one process."""

    def __init__(
        self,
        database: Database,
        *,
        keys: KeyRing | None = None,
        listen_url: str | None = None,
        poll: float = 1.0,
        batch_limit: int = 10_000,
        lanes: int = 2,
    ) -> None:
        self.database = database
        self.keys = keys or KeyRing()
        self.wake = Wake(database, notify=True)
        self._listener = Listener(listen_url, self.wake.heard) if listen_url else None
        self._pusher = Pusher(database, self.keys, self.wake, lanes=lanes)
        self._acker = Acker(database, self.wake)
        self._popper = Popper(database, self.keys, self.wake, self._acker.under_way, poll=poll, batch_limit=batch_limit)
        self._transactor = Transactor(database, self._pusher, self.wake)
        self.queues = Queues(database, self.keys, self.wake)
        self.dead_letters = DeadLetters(database, self.keys, self.wake)

    @classmethod
    def connect(
        cls, dsn: str, *, options: PoolOptions | None = None, listen: bool = True, keys: KeyRing | None = None
    ) -> Engine:
        """An engine on a database of its own pool; enter it to open the connections."""
        return cls(Database(dsn, options), keys=keys, listen_url=dsn if listen else None)

    async def open(self) -> None:
        """Connect and begin to listen for wake-ups."""
        await self.database.open()
        if self._listener is not None:
            self._listener.start()

    async def stop(self) -> None:
        """Hand out nothing more, answer whoever waits, and finish what is under way."""
        self._popper.stop()
        await self._popper.drain()
        await self._pusher.drain()
        await self._acker.drain()

    async def close(self) -> None:
        """Stop, and let go of every connection."""
        await self.stop()
        await self.wake.close()
        if self._listener is not None:
            await self._listener.stop()
        await self.database.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def push(self, items: Sequence[NewMessage], *, careful: bool = False) -> list[Pushed]:
        """Store all items or none, in order; the same transaction id in a partition is stored once.

        `careful`: items with an id may have been stored by an earlier attempt, so each is looked up first.
        """
        if not telemetry.is_on():
            return await self._pusher.push(items, careful=careful)
        with telemetry.pushing(items) as traced:
            return await self._pusher.push(traced, careful=careful)

    async def pop(self, request: PopRequest) -> list[Message]:
        """Take waiting messages under a lease; with `wait` stand in line for them."""
        return await self._told(self._popper.pop(request), request)

    def consume(self, request: PopRequest, *, prefetch: int = 1) -> Consumer:
        """Work off a queue message by message, each acknowledged before the next is given.

            async with engine.consume(PopRequest(queue="orders", wait=30), prefetch=50) as consumer:
                async for message in consumer:
                    ...

        `prefetch`: at most so many messages of a partition are popped at once, under one lease; what is not given
        goes back uncounted. A slow consumer pops one at a time.
        """
        return Consumer(self._acker, self._popper, request, prefetch)

    async def pop_matching(self, namespace: str | None, task: str | None, request: PopRequest) -> list[Message]:
        """Take from the first queue of a namespace and/or task that has something, by priority."""
        return await self._told(self._popper.pop_matching(namespace, task, request), request)

    async def _told(self, popping: Awaitable[list[Message]], request: PopRequest) -> list[Message]:
        if not telemetry.is_on():
            return await popping
        began = telemetry.now()
        messages = await popping
        telemetry.delivered(messages, telemetry.now() if request.wait else began)
        return messages

    async def register(self, queue: str, group: str, *, mode: str = "all") -> None:
        """Make a group known to a queue before its first pop."""
        await self._popper.register(queue, group, mode)

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """Say what became of single messages."""
        with telemetry.acknowledging(len(acks)):
            return await self._acker.ack(acks)

    async def ack_leases(self, acks: Sequence[LeaseAck]) -> list[Acked]:
        """Everything up to a seq is done, for whole leases: the fast form."""
        with telemetry.acknowledging(len(acks)):
            return await self._acker.ack_leases(acks)

    async def ack_messages(self, messages: Sequence[Message]) -> list[Acked]:
        """Everything in these popped messages is done: one acknowledgement per partition."""
        with telemetry.acknowledging(len(messages)):
            return await self._acker.ack_popped(messages)

    async def former_partitions(self, ids: Sequence[UUID]) -> dict[UUID, int]:
        """Which partitions took the place of those that an earlier schema knew by these ids."""
        return await self._acker.former_partitions(ids)

    async def renew(self, leases: Sequence[UUID], seconds: int) -> list[Renewal]:
        """Let leases live at least `seconds` longer."""
        return await self._acker.renew(leases, seconds)

    async def release(self, leases: Sequence[UUID], delay_ms: int = 0, *, failed: bool = False) -> list[int]:
        """Hand leases back; their messages are delivered again, uncounted unless `failed`."""
        return await self._acker.release(leases, delay_ms, failed=failed)

    async def transaction(
        self,
        pushes: Sequence[NewMessage] = (),
        acks: Sequence[Ack] = (),
        *,
        leases: Sequence[UUID] = (),
        work: Callable[[Connection], Awaitable[None]] | None = None,
        isolation: Isolation = "read_committed",
        at_once: bool = True,
        unique: bool = False,
    ) -> Committed:
        """Pushes, acks and the caller's own statements in one commit, or none of them."""
        return await self._transactor.transaction(
            pushes, acks, leases=leases, work=work, isolation=isolation, at_once=at_once, unique=unique
        )

    async def delete_message(self, partition_id: int, transaction_id: str) -> bool:
        """Remove one message by hand; tells whether there was one."""
        return bool(
            (await self.database.fetchrow(query("engine/delete_message"), partition_id, transaction_id))["existed"]
        )

    async def cancel_message(
        self, queue: str, partition: str, message_id: UUID, transaction_id: str, *, look: bool = False
    ) -> Standing:
        """Where a message stands; one that is scheduled or waits is removed, unless only to `look`."""
        row = await self.database.fetchrow(
            query("engine/cancel_message"), queue, partition, message_id, transaction_id, look
        )
        found: Standing = row["state"]
        return found

    async def horizon(self) -> int:
        """X such that every message with `pos` < X is committed and none below it will appear."""
        return int((await self.database.fetchrow(query("engine/advance_horizon")))["position"])

    @property
    def parked(self) -> dict[str, int]:
        """How many pops wait, by queue."""
        return self._popper.parked

    @property
    def batch_sizes(self) -> dict[str, list[BatchSizes]]:
        """How many requests shared each database call, by verb."""
        return {"push": self._pusher.sizes, "ack": self._acker.sizes}
