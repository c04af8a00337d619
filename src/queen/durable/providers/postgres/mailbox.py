"""The generic mailbox and event store on PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from queen.durable.mailbox import (
    NOTHING,
    DeadLetter,
    Mailbox,
    MailboxMessage,
    MessageBatch,
    Outgoing,
    StoredEvent,
    UnitOfWork,
)
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.connection import Database
from queen.durable.providers.postgres.schema import DEFAULT_SCHEMA, Schema
from queen.durable.providers.postgres.turns import columns
from queen.durable.providers.wake import Clock

__all__ = ["PostgresMailbox"]


class PostgresMailbox(Mailbox):
    """Mailboxes in a schema of their own, shared by any number of processes."""

    def __init__(self, database: Database, clock: Clock | None) -> None:
        self._database = database
        self._clock = clock

    @classmethod
    async def connect(
        cls, url: str, *, schema: str = DEFAULT_SCHEMA, clock: Clock | None = None, pool_size: int = 10
    ) -> "PostgresMailbox":
        """Connect; the schema is made and migrated when missing."""
        return cls(await Database.open(url, Schema(schema), pool_size=pool_size), clock)

    async def close(self) -> None:
        await self._database.close()

    def _now(self) -> int | None:
        return None if self._clock is None else self._clock()

    async def enqueue(self, queue: str, routing_key: str | None, message: bytes, visible_after_ms: int = 0) -> None:
        sent = columns([(queue, routing_key, message, visible_after_ms)], 4)
        await self._database.call("enqueue", "mailbox_enqueue", *sent, self._now())

    async def dequeue_batch(self, queue: str, *, lock_timeout_ms: int = 30_000) -> MessageBatch | None:
        rows = await self._database.call("dequeue_batch", "mailbox_dequeue", queue, lock_timeout_ms, self._now())
        if not rows:
            return None
        messages = tuple(MailboxMessage(row["id"], row["body"], row["attempts"]) for row in rows)
        return MessageBatch(rows[0]["routing_key"], messages, rows[0]["token"])

    async def ack(self, lock_token: str, work: UnitOfWork = NOTHING) -> None:
        held = await self._database.value(
            "ack",
            "mailbox_ack",
            lock_token,
            *columns([_outgoing(message) for message in work.outgoing], 4),
            *columns([_event(event) for event in work.events], 5),
            *columns([(letter.message_id, letter.error) for letter in work.dead_letters], 2),
            self._now(),
        )
        self._require("ack", held=held)

    async def abandon(self, lock_token: str, delay_ms: int = 0, *, ignore_attempt: bool = False) -> None:
        held = await self._database.value(
            "abandon", "mailbox_abandon", lock_token, delay_ms, int(ignore_attempt), self._now()
        )
        self._require("abandon", held=held)

    async def renew(self, lock_token: str, extend_ms: int) -> None:
        self._require(
            "renew", held=await self._database.value("renew", "mailbox_renew", lock_token, extend_ms, self._now())
        )

    def _require(self, operation: str, *, held: bool) -> None:
        if not held:
            raise ProviderError(operation, "the lock is not held", code="lock_lost")

    async def dead_letters(self, queue: str, *, limit: int = 100) -> list[DeadLetter]:
        rows = await self._database.call("dead_letters", "mailbox_dead_letters", queue, limit)
        return [DeadLetter(row[0], row[4], row[1], row[2], row[3]) for row in rows]

    async def append(self, events: Sequence[StoredEvent]) -> None:
        await self._database.call("append", "append_stored_events", *columns([_event(event) for event in events], 5))

    async def read_events(self, instance: str, execution_id: int | None = None) -> list[StoredEvent]:
        rows = await self._database.call("read_events", "read_events", instance, execution_id)
        return [StoredEvent(*row) for row in rows]

    async def latest_execution(self, instance: str) -> int | None:
        found: int | None = await self._database.value("latest_execution", "latest_execution", instance)
        return found


def _outgoing(message: Outgoing) -> tuple[Any, ...]:
    return message.queue, message.routing_key, message.body, message.visible_after_ms


def _event(event: StoredEvent) -> tuple[Any, ...]:
    return event.instance, event.execution_id, event.event_id, event.kind, event.data
