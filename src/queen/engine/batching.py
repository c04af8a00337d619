"""Micro-batching: whoever arrives while a database call is under way rides the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, TypeVar, cast

from queen import errors

# Calls under way: enough to keep the database busy while answers are read, few enough for arrivals to gather. Those who
# ask again and again fall into that many crowds that take turns.
CALLS: Final = 2
# No crowd is split into calls smaller than this: what each costs by itself would outweigh working side by side.
SMALLEST: Final = 32

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class BatchSizes:
    """How many requests shared each database call so far."""

    calls: int = 0
    requests: int = 0
    largest: int = 0

    def note(self, size: int) -> None:
        """Count one call."""
        self.calls += 1
        self.requests += size
        self.largest = max(self.largest, size)


@dataclass(slots=True)
class _Waiting(Generic[Request, Answer]):
    request: Request
    weight: int
    answer: asyncio.Future[Answer]
    until: float = inf


@dataclass(slots=True)
class Coalescer(Generic[Request, Answer]):
    """Runs `call` on all requests that gathered while the previous call ran.

    `call` answers each request by itself: a value, or the exception that belongs to that request
    alone. When the call fails as a whole, its halves are tried, and theirs, so that one bad request
    fails alone (I11) and costs the others a few calls, not one each. Not when the failure cannot be
    a request's own: the database is away, or nobody knows whether the call was carried out.
    Then every caller hears that, and decides what is safe to repeat.

    `calls` of them may be under way at once, of the same size where many wait.
    """

    call: Callable[[Sequence[Request]], Awaitable[Sequence[Answer | Exception]]]
    limit: int = 1000
    calls: int = 1
    sizes: BatchSizes = field(default_factory=BatchSizes)
    _queue: deque[_Waiting[Request, Answer]] = field(default_factory=deque)
    _workers: set[asyncio.Task[None]] = field(default_factory=set)
    _under_way: int = 0
    _limited: deque[_Waiting[Request, Answer]] = field(default_factory=deque)
    _alarm: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a call is under way or about to be."""
        return bool(self._workers)

    @property
    def idle(self) -> bool:
        """Whether nobody waits for an answer."""
        return not self._queue and not self._under_way

    async def submit(self, request: Request, weight: int = 1, until: float = inf) -> Answer:
        """Have one request answered; `weight` counts against the size of a call.

        TimeoutError once the loop's time is `until`; the request may be carried out nevertheless.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(request, weight, answer, until)
        self._queue.append(waiting)
        if until < inf:
            self._watch(waiting)
        if len(self._workers) < self.calls:
            self._workers.add(asyncio.create_task(self._run(), name="queen-coalesce"))
        return await answer

    def _watch(self, waiting: _Waiting[Request, Answer]) -> None:
        """One timer for all: one for each would be a fifth of what a push costs here."""
        while self._limited and self._limited[0].answer.done():
            self._limited.popleft()
        self._limited.append(waiting)
        if self._alarm is None or waiting.until < self._alarm.when():
            self._set_alarm(waiting.until)

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        self._alarm = None
        for waiting in self._limited:
            if waiting.until <= now and not waiting.answer.done():
                waiting.answer.set_exception(TimeoutError("the database did not answer in time"))
        self._limited = deque(waiting for waiting in self._limited if not waiting.answer.done())
        if self._limited:
            self._set_alarm(min(waiting.until for waiting in self._limited))

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while self._workers:
            await asyncio.wait(self._workers)

    async def _run(self) -> None:
        try:
            while True:
                # One turn of the loop lets callers that are ready now, those just answered as well, share the call.
                await asyncio.sleep(0)
                batch = self._take()
                if not batch:
                    return
                self._under_way += len(batch)
                await self._serve(batch)
                self._under_way -= len(batch)
        finally:
            self._workers.remove(cast("asyncio.Task[None]", asyncio.current_task()))

    def _take(self) -> list[_Waiting[Request, Answer]]:
        batch: list[_Waiting[Request, Answer]] = []
        weight = 0
        share = max(SMALLEST, -(-(self._under_way + len(self._queue)) // self.calls))
        while len(batch) < share and self._queue and (not batch or weight + self._queue[0].weight <= self.limit):
            waiting = self._queue.popleft()
            if not waiting.answer.done():
                batch.append(waiting)
                weight += waiting.weight
        return batch

    async def _serve(self, batch: list[_Waiting[Request, Answer]]) -> None:
        self.sizes.note(len(batch))
        try:
            answers = await self.call([waiting.request for waiting in batch])
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers
            if len(batch) == 1 or isinstance(error, errors.StoreUnavailable):
                for waiting in batch:
                    _settle(waiting, error)
                return
            middle = len(batch) // 2
            await self._serve(batch[:middle])
            await self._serve(batch[middle:])
            return
        for waiting, answer in zip(batch, answers, strict=True):
            _settle(waiting, answer)


def _settle(waiting: _Waiting[Request, Answer], answer: Answer | Exception) -> None:
    if waiting.answer.done():
        return
    if isinstance(answer, Exception):
        waiting.answer.set_exception(answer)
    else:
        waiting.answer.set_result(answer)
