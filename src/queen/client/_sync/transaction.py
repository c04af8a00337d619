"""The synchronous twin of `queen.client.transaction`."""

# Written by scripts/sync_client.py from src/queen/client/transaction.py; change that instead.

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from queen.client.message import Delivered, Outcome
from queen.client.portal import Portal
from queen.engine import Committed
from queen.model import DEFAULT_PARTITION


class Transaction:
    """Collects pushes and acknowledgements; leaving the block without an error commits them at once.

    A lost lease or an unknown message raises, and then nothing of it happened.
    """

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def result(self) -> Committed | None:
        """What became of it, once committed."""
        value: Committed | None = self._inner.result
        return value

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
        self._inner.push(
            queue, data, partition=partition, transaction_id=transaction_id, trace_id=trace_id, deliver_at=deliver_at
        )

    def ack(self, messages: Delivered[Any] | Outcome | Iterable[Delivered[Any] | Outcome]) -> None:
        """Acknowledge these when the transaction commits; a failed one becomes a dead letter at once."""
        self._inner.ack(messages)

    def commit(self) -> Committed:
        """Do it now, instead of at the end of the block."""
        result: Committed = self._portal.run(self._inner.commit())
        return result

    def __enter__(self) -> Self:
        self._portal.run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.run(self._inner.__aexit__(kind, error, trace))
