"""transaction: acknowledgements and pushes that happen together or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from queen.client.message import Delivered, Outcome
from queen.client.push import new_message
from queen.engine import Committed
from queen.errors import InvalidRequest
from queen.model import DEFAULT_PARTITION, Ack, NewMessage

if TYPE_CHECKING:
    from queen.client.client import Client


class Transaction:
    """Collects pushes and acknowledgements; leaving the block without an error commits them at once.

    A lost lease or an unknown message raises, and then nothing of it happened.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pushes: list[NewMessage] = []
        self._acks: list[Ack] = []
        self.result: Committed | None = None

    def push(
        self,
        queue: str,
        data: object,
        *,
        partition: str = DEFAULT_PARTITION,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        deliver_at: datetime | None = None,
    ) -> None:
        """Push this when the transaction commits."""
        self._pushes.append(new_message(queue, data, partition, transaction_id, trace_id, deliver_at))

    def ack(self, messages: Delivered[Any] | Outcome | Iterable[Delivered[Any] | Outcome]) -> None:
        """Acknowledge these when the transaction commits; a failed one becomes a dead letter at once."""
        self._acks += [outcome.ack() for outcome in outcomes(messages)]

    async def commit(self) -> Committed:
        """Do it now, instead of at the end of the block."""
        if not self._pushes and not self._acks:
            raise InvalidRequest("operations", "Transaction has no operations to commit")
        pushes, acks = self._pushes, self._acks
        self._pushes, self._acks = [], []
        self.result = await self._client.retry.run(
            lambda: self._client.transport.transaction(pushes, acks), repeatable=False
        )
        return self.result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and (self._pushes or self._acks):
            await self.commit()


def outcomes(messages: Delivered[Any] | Outcome | Iterable[Delivered[Any] | Outcome]) -> list[Outcome]:
    """One message or many, or what became of them, as outcomes; a plain message is a completed one."""
    given = [messages] if isinstance(messages, Delivered | Outcome) else messages
    return [entry if isinstance(entry, Outcome) else entry.completed() for entry in given]
