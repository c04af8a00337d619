"""Messages in hand: their lease is kept alive, what is done is acknowledged, the rest is handed back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from queen.client.message import Delivered, Outcome
from queen.client.retry import Retry
from queen.client.transport import Transport
from queen.errors import QueenError
from queen.model import Acked

_log = logging.getLogger("queen.client")
_CHECKPOINT: Final = 1.0


class Held:
    """The messages of one pop, worked on in order.

    Acknowledges contiguous prefixes only: a failure is told in a call of its own, so that it costs a
    retry and not the message. Leaving the block hands back at once whatever was not begun.
    """

    def __init__(self, transport: Transport, retry: Retry, messages: Sequence[Delivered[Any]], lease: int) -> None:
        self._transport = transport
        self._retry = retry
        self._lease = lease
        self._lanes: dict[int, list[Delivered[Any]]] = {}
        for message in messages:
            self._lanes.setdefault(message.raw.partition_id, []).append(message)
        self._id: UUID | None = messages[0].lease_id
        self._open = {lane: messages[-1].transaction_id for lane, messages in self._lanes.items()}
        self._done: dict[int, Delivered[Any]] = {}
        self._acked_at = 0.0
        self._keeper: asyncio.Task[None] | None = None
        self.lost = False

    @property
    def lanes(self) -> list[list[Delivered[Any]]]:
        """The messages by partition."""
        return list(self._lanes.values())

    async def __aenter__(self) -> Self:
        self._acked_at = asyncio.get_running_loop().time()
        if self._id is not None:
            self._keeper = asyncio.create_task(self._keep(), name="queen-lease")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.acknowledge()
            await self.hand_back()
        finally:
            if self._keeper is not None:
                self._keeper.cancel()
                with suppress(asyncio.CancelledError):
                    await self._keeper

    async def _keep(self) -> None:
        """Renew at a third of the lease, so that two renewals may fail before it is lost."""
        assert self._id is not None
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                renewed = (await self._transport.renew([self._id], self._lease))[0].renewed
            except QueenError as error:
                _log.warning("a lease could not be renewed: %s", error)
                continue
            if not renewed and self._open:
                self.lost = True
                _log.warning("the lease of %d partitions was lost while working", len(self._open))
                return

    def complete(self, message: Delivered[Any]) -> None:
        """This message, and so everything before it in its partition, is done."""
        self._done[message.raw.partition_id] = message

    async def checkpoint(self) -> None:
        """Acknowledge what is done, at most once a second, so that a crash repeats little."""
        if asyncio.get_running_loop().time() - self._acked_at >= _CHECKPOINT:
            await self.acknowledge()

    async def acknowledge(self) -> None:
        """Acknowledge what is done so far."""
        done, self._done = self._done, {}
        self._acked_at = asyncio.get_running_loop().time()
        if not done or self._id is None:
            for lane in done:
                self._finish(lane, done[lane].transaction_id)
            return
        messages = [message.raw for message in done.values()]
        acked = await self._retry.run(lambda: self._transport.ack_up_to(messages))
        for message, outcome in zip(messages, acked, strict=True):
            if outcome.ok:
                self._finish(message.partition_id, message.transaction_id)
            else:
                self._lose(message.partition_id)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Acked]:
        """Tell the outcome of messages in one call."""
        if self._id is None:
            return []
        acks = [outcome.ack() for outcome in outcomes]
        acked = await self._retry.run(lambda: self._transport.ack(acks))
        for outcome, result in zip(outcomes, acked, strict=True):
            lane = outcome.message.raw.partition_id
            if not result.ok:
                self._lose(lane)
            elif result.released:
                self._open.pop(lane, None)
            else:
                self._finish(lane, outcome.message.transaction_id)
        return acked

    async def hand_back(self, delay: float = 0.0) -> None:
        """Give what is left of the lease to others."""
        if not self._open or self._id is None or self.lost:
            return
        self._open.clear()
        lease = self._id
        await self._retry.run(lambda: self._transport.release([lease], delay))

    def _finish(self, lane: int, transaction_id: str) -> None:
        if self._open.get(lane) == transaction_id:
            del self._open[lane]

    def _lose(self, lane: int) -> None:
        self.lost = self.lost or lane in self._open
        self._open.pop(lane, None)
        _log.warning("a lease was lost before its messages could be acknowledged; they will run again elsewhere")
