"""Messages in hand: their lease is kept alive, what is done is acknowledged, the rest is handed back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from queen.client.message import Delivered, Outcome
from queen.client.retry import Retry
from queen.client.transport import Transport
from queen.errors import QueenError, RequestError
from queen.model import Acked, NewMessage

_log = logging.getLogger("queen.client")


class Held:
    """The messages of one pop, worked on in order.

    Acknowledges contiguous prefixes only: a failure is told in a call of its own, so that it costs a
    retry and not the message. Leaving the block hands back at once whatever was not begun.
    """

    def __init__(self, transport: Transport, retry: Retry, messages: Sequence[Delivered[Any]], lease: int) -> None:
        self._transport = transport
        self._retry = retry
        self._lease = lease
        self._id: UUID | None = messages[0].lease_id
        # The last message of each partition that is not done.
        self._open = {message.raw.partition_id: message.transaction_id for message in messages}
        self._done: dict[int, Delivered[Any]] = {}
        self._began = asyncio.get_running_loop().time()
        self._keeper: asyncio.Task[None] | None = None
        self.lost = False

    @property
    def seconds(self) -> float:
        """How long they have been held."""
        return asyncio.get_running_loop().time() - self._began

    async def __aenter__(self) -> Self:
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

    async def acknowledge(self) -> None:
        """Acknowledge what is done so far."""
        done, self._done = self._done, {}
        if not done or self._id is None:
            for partition, last in done.items():
                self._finish(partition, last.transaction_id)
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
            partition = outcome.message.raw.partition_id
            if not result.ok:
                self._lose(partition)
            elif result.released:
                self._open.pop(partition, None)
            else:
                self._finish(partition, outcome.message.transaction_id)
        return acked

    async def commit(self, message: Delivered[Any], pushes: Sequence[NewMessage]) -> bool:
        """This message is done, and these are pushed, together; whether it happened."""
        acks = [message.completed().ack()] if self._id is not None else []
        try:
            await self._retry.run(lambda: self._transport.transaction(pushes, acks), repeatable=False)
        except RequestError as error:
            _log.warning("%s/%s: its end could not be committed: %s", message.queue, message.partition, error)
            self._lose(message.raw.partition_id)
            return False
        self._finish(message.raw.partition_id, message.transaction_id)
        return True

    async def remove(self, message: Delivered[Any]) -> None:
        """This message is done and is not kept."""
        await self._retry.run(lambda: self._transport.remove(message.raw))
        self._finish(message.raw.partition_id, message.transaction_id)

    async def hand_back(self, delay: float = 0.0, *, failed: bool = False) -> None:
        """Give what is left of the lease to others; `failed` counts a retry for the first of it."""
        if not self._open or self._id is None or self.lost:
            return
        self._open.clear()
        lease = self._id
        await self._retry.run(lambda: self._transport.release([lease], delay, failed=failed))

    def _finish(self, partition: int, transaction_id: str) -> None:
        if self._open.get(partition) == transaction_id:
            del self._open[partition]

    def _lose(self, partition: int) -> None:
        self.lost = self.lost or partition in self._open
        self._open.pop(partition, None)
        _log.warning("a lease was lost before its messages could be acknowledged; they will run again elsewhere")
