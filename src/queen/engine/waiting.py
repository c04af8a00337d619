"""Long polls: everyone who waits for the same work shares database calls."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from math import inf
from operator import attrgetter
from typing import Final
from uuid import UUID

from queen.engine.batching import CALLS
from queen.errors import QueenError
from queen.model import Message, PopRequest

TOGETHER: Final = 256
NIL: Final = UUID(int=0)
# More than this many are split over two calls when nothing is under way.
SPLIT: Final = 16
# A wake-up asks for this many first; only if all of them got something does it ask for more.
WOKEN: Final = 32
# How long to leave a partition alone that has something but that somebody else holds, doubled up to the poll interval.
HELD: Final = 0.01
# Who comes this soon after somebody was told that there is nothing waits for a wake-up with the others before asking.
SETTLE: Final = 0.01
_PLACE: Final = attrgetter("place")


@dataclass(slots=True, eq=False)
class Waiter:
    """One request, with the lease it gets from the call that serves it."""

    place: int  # by when it came
    request: PopRequest
    deadline: float
    answer: asyncio.Future[list[Message]]
    lease: UUID = NIL
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What one database call had for the waiters, in their order.

    `next_in`: seconds until something becomes ready by itself, None when nothing will; at or below 0 when something
    is ready that somebody else holds right now.
    """

    found: list[list[Message]]
    next_in: float | None
    again: bool
    queue_id: int | None


class Waiters:
    """Serves requests of one kind, first come first served, a few database calls at a time.

    Whoever got nothing and may wait does so until a wake-up, the time the next partition becomes ready,
    or the poll interval, whichever comes first: wake-ups are hints, polling is the truth.
    """

    def __init__(
        self,
        offer: Callable[[Sequence[Waiter]], Awaitable[Offer]],
        give_back: Callable[[Waiter], Awaitable[None]],
        retire: Callable[[], None],
        acking: Callable[[], bool],
        poll: float,
    ) -> None:
        self._offer = offer
        self._give_back = give_back
        self._retire = retire
        self._acking = acking
        self._poll = poll
        self._loop = asyncio.get_running_loop()
        self._places = count()
        self._fresh: deque[Waiter] = deque()
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        self._calls: set[asyncio.Task[None]] = set()
        self._returns: set[asyncio.Task[None]] = set()
        self._starting = False
        self._woken = False
        self._wakes = 0
        self._held = HELD
        self._empty_at = -inf  # when a call began that found too little for those who asked, with no wake-up since
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False
        self.queue_id: int | None = None

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting) + len(self._fresh)

    async def ask(self, request: PopRequest) -> list[Message]:
        """Wait until there is something or the request's wait is over."""
        waiter = Waiter(next(self._places), request, self._loop.time() + request.wait, self._loop.create_future())
        self._fresh.append(waiter)
        self._start_soon()
        try:
            return await waiter.answer
        except asyncio.CancelledError:
            answer = waiter.answer
            if answer.done() and not answer.cancelled() and answer.exception() is None and answer.result():
                self._return_soon(waiter)
            raise

    def wake(self) -> None:
        """Something may be ready."""
        self._wakes += 1
        self._woken = True
        self._empty_at = -inf
        self._start_soon()

    def dismiss(self) -> None:
        """Answer everyone who waits with nothing, now and from now on."""
        self._closed = True
        for waiter in (*self._fresh, *self._waiting):
            self._send_home(waiter)
        self._fresh.clear()

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while tasks := [*self._calls, *self._returns]:
            await asyncio.wait(tasks)

    def _start_soon(self) -> None:
        # One turn of the loop lets callers that are ready now share the call.
        if not self._starting:
            self._starting = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._starting = False
        if self._fresh and not self._woken and self._loop.time() < self._empty_at + SETTLE:
            self._settle()
        free = CALLS - self._acking()
        while len(self._calls) < free and (batch := self._take(alone=free == CALLS and not self._calls)):
            task = asyncio.create_task(self._serve(batch), name="queen-pop")
            self._calls.add(task)
            task.add_done_callback(self._called)
        if not self._calls and not self.count:
            self._set_alarm(None)
            self._retire()

    def _settle(self) -> None:
        """Those who came just now join those who were told that there is nothing; who must not wait asks."""
        self._fresh, fresh = deque(), self._fresh
        for waiter in fresh:
            if waiter.request.wait <= SETTLE:
                self._fresh.append(waiter)
            elif self._may_wait(waiter):
                self._waiting[waiter] = None
        when = self._empty_at + SETTLE
        if self._waiting and (self._alarm is None or self._alarm.when() > when):
            self._set_alarm(when - self._loop.time())

    def _called(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._start_soon()

    def _take(self, *, alone: bool) -> list[Waiter]:
        batch: list[Waiter] = []
        if self._woken:
            self._woken = False
            batch = list(islice(self._waiting, WOKEN))
            for waiter in batch:
                del self._waiting[waiter]
        # With nothing under way many are split, so that the database works on one part while we read the other.
        limit = (len(self._fresh) + 1) // CALLS if alone and len(self._fresh) > SPLIT else TOGETHER
        limit = min(limit, TOGETHER) + len(batch)
        while self._fresh and len(batch) < limit:
            waiter = self._fresh.popleft()
            if not waiter.answer.done():
                batch.append(waiter)
        batch.sort(key=_PLACE)
        return batch

    async def _serve(self, batch: list[Waiter]) -> None:
        wakes, began = self._wakes, self._loop.time()
        try:
            offer = await self._offer(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to those who wait
            for waiter in batch:
                self._stop_timer(waiter)
                if not waiter.answer.done():
                    waiter.answer.set_exception(error)
            self._set_alarm(self._poll)
            return
        self.queue_id = offer.queue_id
        left = []
        for waiter, messages in zip(batch, offer.found, strict=True):
            if messages:
                self._hand_over(waiter, messages)
            else:
                left.append(waiter)
        missed = offer.again or self._wakes != wakes
        self._keep_in_turn(left, fresh=missed)
        self._woken = self._woken or not left
        if left and not missed:
            self._empty_at = began
            self._set_alarm(self._pause(offer.next_in))

    def _pause(self, next_in: float | None) -> float:
        """How long to wait before asking again, without a wake-up."""
        if next_in is not None and next_in <= 0:
            pause, self._held = self._held, min(self._held * 2, self._poll)
            return min(pause, self._poll)
        self._held = HELD
        return self._poll if next_in is None else min(self._poll, next_in)

    def _keep_in_turn(self, left: list[Waiter], *, fresh: bool) -> None:
        """Those who got nothing keep their place: who has waited before is in front of all who were not asked."""
        before = {waiter for waiter in left if waiter.timer is not None}
        kept = [waiter for waiter in left if self._may_wait(waiter)]
        if fresh:
            self._fresh.extendleft(reversed(kept))
            return
        for waiter in kept:
            self._waiting[waiter] = None
        for waiter in reversed(kept):
            if waiter in before:
                self._waiting.move_to_end(waiter, last=False)

    def _may_wait(self, waiter: Waiter) -> bool:
        if waiter.answer.done() or self._closed or waiter.deadline <= self._loop.time():
            self._send_home(waiter)
            return False
        if waiter.timer is None:
            waiter.timer = self._loop.call_at(waiter.deadline, self._send_home, waiter)
        return True

    def _hand_over(self, waiter: Waiter, messages: list[Message]) -> None:
        self._held = HELD
        self._stop_timer(waiter)
        if waiter.answer.done():
            self._return_soon(waiter)
        else:
            waiter.answer.set_result(messages)

    def _return_soon(self, waiter: Waiter) -> None:
        """The caller went away while we asked: its work must not wait for the lease to run out."""
        task = asyncio.create_task(self._return(waiter))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _return(self, waiter: Waiter) -> None:
        with suppress(QueenError):
            await self._give_back(waiter)

    def _send_home(self, waiter: Waiter) -> None:
        self._stop_timer(waiter)
        self._waiting.pop(waiter, None)
        if not waiter.answer.done():
            waiter.answer.set_result([])
        self._start_soon()

    def _stop_timer(self, waiter: Waiter) -> None:
        if waiter.timer is not None:
            waiter.timer.cancel()
            waiter.timer = None

    def _set_alarm(self, seconds: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._woken = True
        self._start_soon()
