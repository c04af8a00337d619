"""consume: work off a queue message by message.

Every message is acknowledged before the next one is given, by an update of the cursor alone. What keeps that cheap: a
run of waiting messages of one partition is popped at once, under one lease, as many as the consumer gets through in a
moment. Nobody else could have them meanwhile (I1), and a consumer that is slow pops one at a time.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Literal, Self

import msgspec

from queen import errors
from queen.engine import ahead
from queen.engine.ack import Acker
from queen.engine.pop import Popper
from queen.model import Ack, Acked, Message, PopRequest


class Consumer:
    """One consumer of a queue, made by `Engine.consume`.

    Asking for the next message acknowledges the one before; `done` does that alone, `fail` says the opposite. Leaving
    the `async with` block hands back what was not finished; when an error leaves it, the message at hand has failed.
    """

    def __init__(self, acker: Acker, popper: Popper, request: PopRequest, prefetch: int) -> None:
        if request.auto_ack:
            raise errors.InvalidRequest("auto_ack", "autoAck must be off: a consumer acknowledges by itself")
        if not 1 <= prefetch <= 1000:
            raise errors.InvalidRequest("prefetch", "prefetch must be between 1 and 1000")
        self._acker = acker
        self._popper = popper
        self._request = request
        self._prefetch = prefetch
        self._loop = asyncio.get_running_loop()
        self._at_hand: Message | None = None
        self._rest: list[Message] = []  # the next one last
        self._popped_at = 0.0
        self._run = 0
        self._length = 1
        self.lost = 0
        """How many messages were finished when their lease was gone: they are delivered again."""

    async def next(self) -> Message | None:
        """Acknowledge the message at hand and give the next; None when there is none within the request's wait."""
        if self._at_hand is not None:
            await self.done()
        if self._rest and self._loop.time() - self._popped_at > ahead.HOLD:
            self._run -= len(self._rest)
            await self.close()
        if not self._rest:
            await self._pop()
        self._at_hand = self._rest.pop() if self._rest else None
        return self._at_hand

    async def done(self) -> None:
        """Acknowledge the message at hand."""
        [acked] = await self._acker.ack_popped([self._require()])
        self._at_hand = None
        if acked.verdict != "acked":
            self.lost += 1
            self._rest.clear()

    async def fail(self, error: str = "", status: Literal["failed", "retry", "dlq"] = "failed") -> Acked:
        """The message at hand was not done: try it again, count that or not, or make it a dead letter."""
        message = self._require()
        [acked] = await self._acker.ack(
            [
                Ack(
                    partition_id=message.partition_id,
                    transaction_id=message.transaction_id,
                    seq=message.seq,
                    group=message.group,
                    lease_id=message.lease_id,
                    status=status,
                    error=error,
                )
            ]
        )
        self._at_hand = None
        if acked.released or acked.verdict != "acked":
            self._rest.clear()
        return acked

    async def close(self) -> None:
        """Hand back whatever was not finished, uncounted."""
        held = self._at_hand or (self._rest[-1] if self._rest else None)
        self._at_hand = None
        self._rest.clear()
        if held is not None and held.lease_id is not None:
            await self._acker.release([held.lease_id])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._at_hand is not None and isinstance(error, Exception):
            await self.fail(f"{type(error).__name__}: {error}")
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        message = await self.next()
        if message is None:
            raise StopAsyncIteration
        return message

    def _require(self) -> Message:
        if self._at_hand is None:
            raise errors.InvalidRequest("message", "no message is at hand: next() gives one")
        return self._at_hand

    async def _pop(self) -> None:
        found = await self._popper.pop(msgspec.structs.replace(self._request, batch=self._count(), partitions=1))
        self._popped_at = self._loop.time()
        self._run = len(found)
        self._length = sum(len(message.payload) for message in found) // max(self._run, 1)
        self._rest = found[::-1]

    def _count(self) -> int:
        """One at first, then what the pace and the size of the last run allow."""
        if self._run == 0:
            return 1
        return ahead.fitting(self._run, self._loop.time() - self._popped_at, self._length, self._prefetch)
