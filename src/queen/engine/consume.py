"""consume: work off a queue message by message, each acknowledged before the next is given.

With `prefetch` several messages of one partition are popped at once, under one lease. Nobody else could have the later
ones meanwhile (I2), and each costs one acknowledgement instead of a pop and an acknowledgement. What was popped and
not given goes back, uncounted: when the consumer stops, fails or is slow, and with the lease when it is killed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from queen import errors
from queen.engine.ack import Acker
from queen.engine.pop import Popper
from queen.model import Ack, Acked, Message, PopRequest

MAX_PREFETCH: Final = 1000
# No message is given later than this after its pop, so that it has its lease nearly to itself and other partitions
# get their turn.
HOLD: Final = 0.25
_AIM: Final = 0.8


@dataclass(slots=True)
class Pace:
    """How many messages to pop at once: as many as the consumer may, and gets through in a moment."""

    most: int
    count: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MAX_PREFETCH:
            raise errors.InvalidRequest("prefetch", f"prefetch must be between 1 and {MAX_PREFETCH}")
        self.count = self.most

    @staticmethod
    def slow(seconds: float) -> bool:
        """Whether what has been held for so long goes back."""
        return seconds > HOLD

    def went(self, given: int, seconds: float) -> None:
        """So many messages of a batch were given, and it was held for so long: the next is to fit into a moment."""
        fitting = int(given * HOLD * _AIM / max(seconds, 1e-6))
        self.count = max(min(fitting, self.count * 2, self.most), 1)


class Consumer:
    """One consumer of a queue, made by `Engine.consume`.

    Asking for the next message acknowledges the one before; `done` does that alone, `fail` says the opposite. Leaving
    the `async with` block hands back what was not finished; when an error leaves it, the message at hand has failed.
    """

    def __init__(self, acker: Acker, popper: Popper, request: PopRequest, prefetch: int) -> None:
        if request.auto_ack:
            raise errors.InvalidRequest("auto_ack", "autoAck must be off: a consumer acknowledges by itself")
        self._acker = acker
        self._popper = popper
        self._request = request
        self._pace = Pace(prefetch)
        self._loop = asyncio.get_running_loop()
        self._at_hand: Message | None = None
        self._rest: list[Message] = []  # the next one last
        self._given = 0
        self._popped_at = 0.0
        self.lost = 0
        """How many messages were finished when their lease was gone: they are delivered again."""

    async def next(self) -> Message | None:
        """Acknowledge the message at hand and give the next; None when there is none within the request's wait."""
        if self._at_hand is not None:
            await self.done()
        held = self._loop.time() - self._popped_at
        if self._rest and (Pace.slow(held) or self._popper.stopped):
            await self.close()
        if not self._rest:
            if self._given:
                self._pace.went(self._given, held)
            await self._pop()
        if self._rest:
            self._at_hand = self._rest.pop()
            self._given += 1
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
        count = self._pace.count
        found = await self._popper.pop(
            msgspec.structs.replace(self._request, batch=count, partitions=1, prefetch=count > 1)
        )
        self._given, self._popped_at = 0, self._loop.time()
        self._rest = found[::-1]
