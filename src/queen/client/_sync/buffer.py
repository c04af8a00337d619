"""The synchronous twin of `queen.client.buffer`."""

# Written by scripts/sync_client.py from src/queen/client/buffer.py; change that instead.

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from queen.client.portal import Portal
from queen.model import DEFAULT_PARTITION


class Buffer:
    """Sends what was pushed into it whenever `count` messages have gathered or `delay` seconds have passed.

    Leaving the block sends the rest. What could not be sent stays in the buffer and its error is
    raised by the next push, flush or the end of the block, so nothing is lost in silence.
    """

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def sent(self) -> int:
        """How many messages were sent."""
        value: int = self._inner.sent
        return value

    def __len__(self) -> int:
        return len(self._inner)

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
        """Take one message; waits only while a full buffer is being sent."""
        self._portal.run(
            self._inner.push(
                queue,
                data,
                partition=partition,
                transaction_id=transaction_id,
                trace_id=trace_id,
                deliver_at=deliver_at,
            )
        )

    def flush(self) -> int:
        """Send everything now; returns how many messages were sent."""
        result: int = self._portal.run(self._inner.flush())
        return result

    def __enter__(self) -> Self:
        self._portal.run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.run(self._inner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """Send the rest and stop."""
        self._portal.run(self._inner.close())
