"""consume: take, work, acknowledge, until told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from queen.client.failure import error_text, report
from queen.client.held import Held
from queen.client.message import Delivered, Ending, GiveUp, HandBack, Message, Outcome, Reject, TryAgain, handling
from queen.client.options import Options
from queen.client.push import require_name
from queen.client.work import Function, Work
from queen.engine.consume import Pace
from queen.errors import QueenError, QueueNotFound, RequestError, SchemaOutdated

if TYPE_CHECKING:
    from queen.client.client import Client

_log = logging.getLogger("queen.client")
_LEASE: Final = 300
_LEASE_OF_ZERO: Final = 60
# Time to tell what became of messages once their handlers have ended.
_SETTLE: Final = 10.0


@dataclass(slots=True)
class Consumed:
    """How much a consumer did."""

    handled: int = 0
    failed: int = 0
    batches: int = 0


class Consumer:
    """Works on one queue with one handler, `concurrency` messages or batches at a time."""

    def __init__(
        self, client: Client, queue: str, handler: Function, options: Options, kind: Any, *, whole: bool = False
    ) -> None:
        require_name(queue)
        self._client = client
        self._queue = queue
        self._handler = Work(handler)
        self._options = options
        self._kind = kind
        self._whole = whole
        self._stop = asyncio.Event()
        self._left = options.limit
        self._pace = Pace(options.prefetch)
        self._busy = 0
        self._seen_at = asyncio.get_running_loop().time()
        self._lease = options.lease
        self._ended = asyncio.Event()
        self.consumed = Consumed()

    def stop(self) -> None:
        """Fetch nothing more; what runs is finished, the rest handed back."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether nothing more is fetched."""
        return self._stop.is_set()

    async def run(self) -> Consumed:
        """Consume until stopped, out of limit, or idle for too long."""
        workers = [
            asyncio.create_task(self._work(), name=f"queen-consumer-{number}")
            for number in range(self._options.concurrency)
        ]
        try:
            await self._supervise(workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._handler.close()
            self._ended.set()
        return self.consumed

    async def aclose(self) -> None:
        """Stop, and wait until what runs is finished and the rest handed back."""
        self.stop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), self._options.drain + _SETTLE)

    async def _supervise(self, workers: list[asyncio.Task[None]]) -> None:
        stopped = asyncio.create_task(self._stop.wait())
        running: set[asyncio.Task[Any]] = set(workers)
        try:
            while running and not stopped.done():
                done, _ = await asyncio.wait({*running, stopped}, return_when=asyncio.FIRST_COMPLETED)
                for task in done & running:
                    running.discard(task)
                    task.result()
            if running:
                done, late = await asyncio.wait(running, timeout=self._options.drain)
                if late:
                    _log.warning("%d handlers did not finish in time; their messages are handed back", len(late))
                for task in done:
                    task.result()
        finally:
            stopped.cancel()

    async def lease(self) -> int:
        """How long a lease of this queue lasts, asked once."""
        if self._lease is None:
            try:
                self._lease = (await self._client.queues.get(self._queue)).lease_time or _LEASE_OF_ZERO
            except QueueNotFound:
                return _LEASE
        return self._lease

    async def _work(self) -> None:
        while True:
            lease, messages = await self.next()
            if not messages:
                return
            await self._work_on(messages, lease)

    async def next(self) -> tuple[int, list[Message[Any]]]:
        """The next messages and their lease; none when it is time to end."""
        while not self._stop.is_set():
            batch = self._reserve()
            if not batch:
                break
            lease, messages = await self._fetch(batch)
            self._give_back(batch - len(messages))
            if messages:
                self._seen_at = asyncio.get_running_loop().time()
                return lease, messages
            if self._idle():
                self.stop()
        return 0, []

    def given(self, count: int, of: int, seconds: float) -> None:
        """So many of the messages taken were given to the handler in so long; the others count for nothing."""
        self._give_back(of - count)
        if count:
            self._pace.went(count, seconds)

    def _reserve(self) -> int:
        batch = self._options.batch if self._whole else self._pace.count
        if self._left is None:
            return batch
        batch = min(batch, self._left)
        self._left -= batch
        return batch

    def _give_back(self, count: int) -> None:
        if self._left is not None:
            self._left += count

    def _idle(self) -> bool:
        idle = self._options.idle
        return idle is not None and not self._busy and asyncio.get_running_loop().time() - self._seen_at >= idle

    async def _fetch(self, batch: int) -> tuple[int, list[Message[Any]]]:
        """Messages, or none after a wait; a broker that is away is waited for, a refusal is raised."""
        idle = self._options.idle
        wait = self._options.poll if idle is None else min(self._options.poll, idle)
        asking = asyncio.create_task(self._ask(batch, wait))
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({asking, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not asking.done():
                asking.cancel()
        try:
            return await asking
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise
            return _LEASE, []
        except (RequestError, SchemaOutdated):
            raise
        except QueenError as error:
            _log.warning("no messages: %s; trying again", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._client.retry.delay(4))
            return _LEASE, []

    async def _ask(self, batch: int, wait: float) -> tuple[int, list[Message[Any]]]:
        lease = await self.lease()
        request = self._options.request(self._queue, batch, wait, lease, whole=self._whole)
        return lease, await self._client.pop_request(request, self._kind)

    async def _work_on(self, messages: list[Message[Any]], lease: int) -> None:
        self._busy += 1
        self.consumed.batches += 1
        try:
            async with Held(self._client.transport, self._client.retry, messages, lease) as held:
                if self._whole:
                    await self._batch(held, messages)
                else:
                    await self._one_by_one(held, messages)
        except QueenError as error:
            _log.warning("what became of %d messages could not be told: %s", len(messages), error)
        finally:
            self._busy -= 1
            self._seen_at = asyncio.get_running_loop().time()

    async def _one_by_one(self, held: Held, messages: Sequence[Delivered[Any]]) -> None:
        """The messages of one partition in order, up to the first that is to be delivered again."""
        count = 0
        try:
            for message in messages:
                if self._stop.is_set() or held.lost or (count and Pace.slow(held.seconds)):
                    return
                count += 1
                if not await self._outcome(held, message):
                    return
        finally:
            self.given(count, len(messages), held.seconds)

    async def _outcome(self, held: Held, message: Delivered[Any]) -> bool:
        """Work on one message and tell what became of it; whether the next one may follow."""
        try:
            _ = message.data
            with handling(message):
                told = await self._handler.call(message)
        except Exception as trouble:  # noqa: BLE001 - whatever the handler raises is the message's outcome
            return await self._failure(held, message, trouble)
        if isinstance(told, Ending):
            if told.pushes and not await held.commit(message, told.pushes):
                return False
            if told.remove:
                await held.remove(message)
            self.consumed.handled += 1
            return True
        self.consumed.handled += 1
        held.complete(message)
        await held.acknowledge()
        return True

    async def _failure(self, held: Held, message: Delivered[Any], trouble: Exception) -> bool:
        if isinstance(trouble, HandBack) and trouble.delay:
            await held.hand_back(trouble.delay)
            return False
        if isinstance(trouble, TryAgain):
            self.consumed.failed += 1
            if trouble.pushes:
                return await held.commit(message, trouble.pushes)
            await held.hand_back(trouble.delay, failed=True)
            return False
        acked = await held.settle([self._verdict(message, trouble)])
        if isinstance(trouble, GiveUp) and trouble.pushes and acked and acked[0].ok:
            await self._client.push_prepared(trouble.pushes, 0)
        if not isinstance(trouble, HandBack):
            report([message], cause_of(trouble), acked)
        return bool(acked) and acked[0].ok and not acked[0].released

    async def _batch(self, held: Held, messages: list[Message[Any]]) -> None:
        """All messages of a pop in one call: they succeed or fail together, unless it tells them apart."""
        told: Sequence[Outcome] = ()
        try:
            for message in messages:
                _ = message.data
            with handling(messages[0]):
                told = await self._handler.call(messages) or ()
        except Exception as error:  # noqa: BLE001 - whatever the handler raises is the batch's outcome
            if isinstance(error, HandBack):
                await held.hand_back(error.delay)
                return
            report(messages, error, await held.settle([self._verdict(message, error) for message in messages]))
            return
        outcomes = {id(outcome.message): outcome for outcome in told if outcome.status != "completed"}
        self.consumed.handled += len(messages) - len(outcomes)
        self.consumed.failed += len(outcomes)
        if outcomes:
            await held.settle([outcomes.get(id(message)) or message.completed() for message in messages])
            return
        for message in messages:
            held.complete(message)

    def _verdict(self, message: Delivered[Any], trouble: Exception) -> Outcome:
        if isinstance(trouble, HandBack):
            return Outcome(message, "retry", str(trouble))
        self.consumed.failed += 1
        return Outcome(message, "dlq" if isinstance(trouble, Reject) else "failed", error_text(cause_of(trouble)))


def cause_of(trouble: Exception) -> Exception:
    """What a handler raised, below what became of it."""
    return trouble.error if isinstance(trouble, GiveUp | TryAgain) else trouble
