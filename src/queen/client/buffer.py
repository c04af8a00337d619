"""Buffered push: gather messages by count and time, send them in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import UUID

from queen.client.push import new_message
from queen.errors import InvalidRequest, QueenError
from queen.model import DEFAULT_PARTITION, NewMessage

if TYPE_CHECKING:
    from queen.client.client import Client


class Buffer:
    """Sends what was pushed into it whenever `count` messages have gathered or `delay` seconds have passed.

    Leaving the block sends the rest. What could not be sent stays in the buffer and its error is
    raised by the next push, flush or the end of the block, so nothing is lost in silence.
    """

    def __init__(self, client: Client, count: int, delay: float, wait_for_room: float) -> None:
        if count < 1 or delay <= 0:
            raise InvalidRequest("count", "count must be at least 1 and delay above 0")
        self._client = client
        self._count = count
        self._delay = delay
        self._room = wait_for_room
        self._waiting: list[NewMessage] = []
        self._sending = asyncio.Lock()
        self._clock: asyncio.Task[None] | None = None
        self._trouble: QueenError | None = None
        self._again = False  # a push that failed may have stored the messages in front
        self.sent = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def push(
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
        self._waiting.append(new_message(queue, data, partition, transaction_id, trace_id, deliver_at))
        if len(self._waiting) >= self._count:
            await self.flush()
        elif self._trouble is not None:
            self._raise()
        elif self._clock is None:
            self._clock = asyncio.create_task(self._later(), name="queen-buffer")

    async def flush(self) -> int:
        """Send everything now; returns how many messages were sent."""
        sent = 0
        async with self._sending:
            self._trouble = None
            while self._waiting:
                batch = self._waiting[: self._count]
                again, self._again = self._again, True
                await self._client.push_prepared(batch, self._room, again=again)
                self._again = False
                del self._waiting[: len(batch)]
                sent += len(batch)
        self.sent += sent
        return sent

    async def _later(self) -> None:
        await asyncio.sleep(self._delay)
        self._clock = None
        try:
            await self.flush()
        except QueenError as error:
            self._trouble = error

    def _raise(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send the rest and stop."""
        if self._clock is not None:
            self._clock.cancel()
            with suppress(asyncio.CancelledError):
                await self._clock
        await self.flush()
