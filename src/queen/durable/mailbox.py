"""A generic mailbox: messages with an optional routing key, handed out under locks the database enforces.

With a routing key, ALL visible messages of ONE key come out together, and the lock on the key also hides
messages that arrive later, until ack, abandon or expiry. Without a key, messages come out one by one, each under
its own lock. Both may live in one queue; the longest-waiting of either kind comes first. Messages are opaque bytes.

An ack names a :class:`UnitOfWork`: new messages, events and dead letters that are committed with it or not at all.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import msgspec

__all__ = [
    "DeadLetter",
    "EventStore",
    "Mailbox",
    "MailboxMessage",
    "MessageBatch",
    "Outgoing",
    "StoredEvent",
    "UnitOfWork",
]


class MailboxMessage(msgspec.Struct, frozen=True):
    """A message handed out; ``attempt`` counts its deliveries from 1."""

    message_id: int
    body: bytes
    attempt: int


class MessageBatch(msgspec.Struct, frozen=True):
    """What one dequeue hands out: messages of one key in order of arrival, or a single message without key."""

    routing_key: str | None
    messages: tuple[MailboxMessage, ...]
    lock_token: str

    @property
    def attempt(self) -> int:
        """The highest delivery count in the batch."""
        return max(message.attempt for message in self.messages)


class Outgoing(msgspec.Struct, frozen=True):
    """A message to send along with an ack."""

    queue: str
    routing_key: str | None
    body: bytes
    visible_after_ms: int = 0


class StoredEvent(msgspec.Struct, frozen=True):
    """An event of an instance's history: 1, 2, 3 ... within its execution."""

    instance: str
    execution_id: int
    event_id: int
    kind: str
    data: str


class DeadLetter(msgspec.Struct, frozen=True):
    """A message put aside because it cannot be handled."""

    message_id: int
    error: str
    routing_key: str | None = None
    body: bytes = b""
    attempt: int = 0


class UnitOfWork(msgspec.Struct, frozen=True):
    """Everything that is committed together with an ack. Messages in ``dead_letters`` are kept aside."""

    outgoing: tuple[Outgoing, ...] = ()
    events: tuple[StoredEvent, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()


NOTHING = UnitOfWork()


class EventStore(ABC):
    """Append-only histories, one per instance and execution."""

    @abstractmethod
    async def append(self, events: Sequence[StoredEvent]) -> None:
        """Append all or none. Error: ``duplicate_event``; never overwrites."""

    @abstractmethod
    async def read_events(self, instance: str, execution_id: int | None = None) -> list[StoredEvent]:
        """Events of one execution (the latest when not given), in order."""

    @abstractmethod
    async def latest_execution(self, instance: str) -> int | None:
        """The latest execution that has events; ``None`` when there is none."""


class Mailbox(EventStore):
    """Queues of messages, and the histories that are written with their acks.

    Every call raises :class:`~queen.durable.provider.ProviderError` and nothing else.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Release the store."""

    @abstractmethod
    async def enqueue(self, queue: str, routing_key: str | None, message: bytes, visible_after_ms: int = 0) -> None:
        """Store a message, hidden for ``visible_after_ms``."""

    @abstractmethod
    async def dequeue_batch(self, queue: str, *, lock_timeout_ms: int = 30_000) -> MessageBatch | None:
        """Lock the longest-waiting key (all its visible messages) or message without key; ``None`` if there is none."""

    @abstractmethod
    async def ack(self, lock_token: str, work: UnitOfWork = NOTHING) -> None:
        """Delete exactly what the batch handed out and commit ``work`` with it.

        Errors, with nothing changed: ``lock_lost`` for an unknown, expired or superseded token;
        ``duplicate_event``.
        """

    @abstractmethod
    async def abandon(self, lock_token: str, delay_ms: int = 0, *, ignore_attempt: bool = False) -> None:
        """Give the batch back, in order, hidden for ``delay_ms``. Error: ``lock_lost``."""

    @abstractmethod
    async def renew(self, lock_token: str, extend_ms: int) -> None:
        """Hold the lock for ``extend_ms`` from now. Error: ``lock_lost`` once it has expired."""

    @abstractmethod
    async def dead_letters(self, queue: str, *, limit: int = 100) -> list[DeadLetter]:
        """Messages put aside, oldest first."""
