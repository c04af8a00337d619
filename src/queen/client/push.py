"""What to push, from what callers give."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from queen.client.message import lineage
from queen.client.payload import encode
from queen.errors import InvalidRequest
from queen.ids import uuid7
from queen.model import DEFAULT_PARTITION, NewMessage


@dataclass(frozen=True, slots=True)
class Push:
    """One message to push among others, see `Client.push_all`."""

    queue: str
    data: object
    partition: str = DEFAULT_PARTITION
    transaction_id: str | None = None
    trace_id: UUID | str | None = None
    parent_id: UUID | None = None
    deliver_at: datetime | None = None

    def message(self) -> NewMessage:
        """The message as the engine takes it."""
        return new_message(
            self.queue,
            self.data,
            self.partition,
            self.transaction_id,
            self.trace_id,
            self.deliver_at,
            parent_id=self.parent_id,
        )


def require_name(queue: str) -> None:
    """Refuse the empty queue name: the contract of the broker allows it, here it is a variable nobody set."""
    if not queue:
        raise InvalidRequest("queue", "queue must be a name, not the empty text")


def new_message(
    queue: str,
    data: object,
    partition: str,
    transaction_id: str | None,
    trace_id: UUID | str | None,
    deliver_at: datetime | None,
    *,
    parent_id: UUID | None = None,
) -> NewMessage:
    """A message with its payload as JSON and its place in a trace."""
    require_name(queue)
    if deliver_at is not None and deliver_at.tzinfo is None:
        raise InvalidRequest("deliver_at", "deliver_at must be a time with a time zone")
    trace, parent = lineage(trace_id, parent_id)
    return NewMessage(
        queue=queue,
        payload=encode(data),
        partition=partition,
        transaction_id=transaction_id,
        deliver_at=deliver_at,
        id=uuid7(),
        trace_id=trace,
        parent_id=parent,
    )
