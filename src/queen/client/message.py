"""What a consumer gets: a message with its payload as a type of the caller's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Self, TypeVar
from uuid import UUID

from queen import model
from queen.client.errors import DecodeError
from queen.client.payload import decode
from queen.model import AckStatus

T = TypeVar("T")
_UNREAD: Final = object()


class Delivered(Generic[T]):
    """A message as it was handed out. `data` is decoded when first looked at."""

    __slots__ = ("_client", "_data", "_kind", "raw")

    def __init__(self, raw: model.Message, client: Any = None, kind: Any = Any) -> None:
        self.raw = raw
        self._client = client
        self._kind = kind
        self._data: Any = _UNREAD

    @property
    def data(self) -> T:
        """The payload as the type asked for; raises DecodeError when it does not fit."""
        if self._data is _UNREAD:
            if self.raw.broken is not None:
                raise DecodeError(self.raw.broken)
            self._data = decode(self.raw.payload, self._kind)
        value: T = self._data
        return value

    @property
    def payload(self) -> str:
        """The payload as JSON text."""
        return self.raw.payload

    @property
    def id(self) -> UUID:
        """Its id, made when it was pushed."""
        return self.raw.id

    @property
    def transaction_id(self) -> str:
        """The producer's idempotency key, or the text of the id when it gave none."""
        return self.raw.transaction_id

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self.raw.queue

    @property
    def partition(self) -> str:
        """The partition it came from."""
        return self.raw.partition

    @property
    def group(self) -> str:
        """The consumer group it was handed to."""
        return self.raw.group

    @property
    def seq(self) -> int:
        """Its position in the partition: 1, 2, 3, without holes."""
        return self.raw.seq

    @property
    def created_at(self) -> datetime:
        """When it was stored."""
        return self.raw.created_at

    @property
    def trace_id(self) -> UUID | None:
        """The trace it belongs to."""
        return self.raw.trace_id

    @property
    def parent_id(self) -> UUID | None:
        """The message that was being handled when this one was pushed."""
        return self.raw.parent_id

    @property
    def producer_sub(self) -> str | None:
        """Who pushed it, by the producer's token."""
        return self.raw.producer_sub

    @property
    def retry_count(self) -> int:
        """How often its batch failed before."""
        return self.raw.retry_count

    @property
    def delivery_count(self) -> int:
        """How often its lease ran out before."""
        return self.raw.delivery_count

    @property
    def client(self) -> Any:
        """The client it came from, to push with from a handler."""
        if self._client is None:
            raise RuntimeError("this message was copied from another process: it has no client here")
        return self._client

    @property
    def lease_id(self) -> UUID | None:
        """The lease it is held under; None when it was acknowledged at delivery."""
        return self.raw.lease_id

    def completed(self) -> Outcome:
        """This message is done, for `ack`."""
        return Outcome(self, "completed")

    def failed(self, error: str) -> Outcome:
        """This message failed and is to be delivered again, for `ack`."""
        return Outcome(self, "failed", error)

    def dead(self, error: str) -> Outcome:
        """This message is to be a dead letter at once, for `ack`."""
        return Outcome(self, "dlq", error)

    def __copy__(self) -> Self:
        return type(self)(self.raw, self._client, self._kind)

    def __reduce__(self) -> tuple[type[Self], tuple[model.Message, None, Any]]:
        """A pickled message keeps what it holds, not its client."""
        return type(self), (self.raw, None, self._kind)

    def __repr__(self) -> str:
        return f"<Message {self.queue}/{self.partition} #{self.seq} {self.transaction_id}>"


class Message(Delivered[T]):
    """A message as it was handed out. `data` is decoded when first looked at.

    `message.data` is `T` when the consumer or pop named a type, else plain JSON values.
    """

    __slots__ = ()

    async def trace(self, event: str, data: object = None, *, name: str | None = None) -> None:
        """Write a note into this message's story, such as `trace("charged", {"amount": 12})`.

        `name` files it under a name that notes of several messages can share.
        """
        await self._client.record_trace(self, event, data, name=name)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message."""

    message: Delivered[Any]
    status: AckStatus
    error: str | None = None

    def ack(self) -> model.Ack:
        """The acknowledgement that says so."""
        raw = self.message.raw
        return model.Ack(
            partition_id=raw.partition_id,
            transaction_id=raw.transaction_id,
            group=raw.group,
            lease_id=raw.lease_id,
            status=self.status,
            error=self.error,
            seq=raw.seq or None,
        )


class Reject(Exception):
    """Raised by a handler: this message will never succeed, make it a dead letter at once."""


class HandBack(Exception):
    """Raised by a handler: not now; deliver this message again after `delay` seconds, uncounted."""

    def __init__(self, reason: str = "", *, delay: float = 0.0) -> None:
        super().__init__(reason)
        self.delay = delay


class TryAgain(Exception):
    """An attempt failed with `error`: again after `delay` seconds, in order; or as `pushes`, if there are any."""

    def __init__(self, error: Exception, delay: float, pushes: Sequence[model.NewMessage] = ()) -> None:
        super().__init__(str(error))
        self.error = error
        self.delay = delay
        self.pushes = pushes


class GiveUp(Reject):
    """The last attempt failed with `error`: a dead letter; `pushes` are pushed with it."""

    def __init__(self, error: Exception, pushes: Sequence[model.NewMessage] = ()) -> None:
        super().__init__(str(error))
        self.error = error
        self.pushes = pushes


@dataclass(frozen=True, slots=True)
class Ending:
    """What a handler may return: pushes that commit with its message, and whether the message is to be removed."""

    pushes: Sequence[model.NewMessage] = ()
    remove: bool = False


_handled: ContextVar[Delivered[Any] | None] = ContextVar("queen_handled", default=None)


@contextmanager
def handling(message: Delivered[Any]) -> Iterator[None]:
    """While the block runs, what is pushed follows from this message."""
    token = _handled.set(message)
    try:
        yield
    finally:
        _handled.reset(token)


def message_of() -> Any:
    """The message being handled here."""
    found = _handled.get()
    if found is None:
        raise RuntimeError("no message is being handled here")
    return found


def follow(message: Delivered[Any] | None) -> None:
    """From now on, what is pushed in this context follows from this message."""
    _handled.set(message)


def handled_in(context: Context) -> Delivered[Any] | None:
    """The message being handled in another context."""
    return context.get(_handled)


def lineage(trace_id: UUID | str | None, parent_id: UUID | None = None) -> tuple[UUID | None, UUID | None]:
    """The trace and parent of a message pushed now: given, or those of the message being handled."""
    message = _handled.get()
    given = UUID(trace_id) if isinstance(trace_id, str) else trace_id
    if message is None:
        return given, parent_id
    return given or message.trace_id, parent_id or message.id
