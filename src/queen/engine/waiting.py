"""Long polls: everyone who waits for the same work stands at one desk and shares its database calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final
from uuid import UUID

from queen.engine.ahead import CROWD, Crowd, Run, Runs
from queen.engine.batching import CALLS
from queen.errors import QueenError
from queen.model import Message, PopRequest

TOGETHER: Final = 256
NIL: Final = UUID(int=0)
# A wake-up asks for this many first; only if all of them got something does it ask for more.
WOKEN: Final = 32


@dataclass(slots=True, eq=False)
class Parked:
    """One request at the desk, with the lease it gets from the call that serves it."""

    request: PopRequest
    deadline: float
    answer: asyncio.Future[list[Message]]
    lease: UUID = NIL
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What one database call had for the parked requests, in their order.

    `next_in`: seconds until something becomes ready by itself, None when nothing will.
    `lease`: how many seconds the leases given live.
    """

    found: list[list[Message]]
    next_in: float | None
    lease: float
    again: bool
    queue_id: int | None


class Desk:
    """Serves requests of one kind, first come first served, a few database calls at a time.

    Whoever got nothing and may wait is parked until a wake-up, the time the next lane becomes ready,
    or the poll interval, whichever comes first: wake-ups are hints, polling is the truth.
    Crowds that ask for single messages get them from runs.
    """

    def __init__(
        self,
        offer: Callable[[Sequence[Parked], int], Awaitable[Offer]],
        give_back: Callable[[Parked], Awaitable[None]],
        retire: Callable[[], None],
        acking: Callable[[], bool],
        runs: Runs,
        poll: float,
    ) -> None:
        self._offer = offer
        self._give_back = give_back
        self._retire = retire
        self._acking = acking
        self._poll = poll
        self._loop = asyncio.get_running_loop()
        self._crowd = Crowd(runs, self._serve_from, self._start_soon)
        self._fresh: deque[Parked] = deque()
        self._waiting: dict[Parked, None] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._returns: set[asyncio.Task[None]] = set()
        self._asking = 0
        self._starting = False
        self._woken = False
        self._wakes = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False
        self.queue_id: int | None = None

    @property
    def parked(self) -> int:
        """How many wait."""
        return len(self._waiting) + len(self._fresh)

    async def ask(self, request: PopRequest) -> list[Message]:
        """Stand in line until there is something or the request's wait is over."""
        if request.batch == 1 and (message := self._crowd.take()):
            return message
        waiting = Parked(request, self._loop.time() + request.wait, self._loop.create_future())
        self._fresh.append(waiting)
        self._start_soon()
        self._asking += 1
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            answer = waiting.answer
            if answer.done() and not answer.cancelled() and answer.exception() is None and answer.result():
                self._return_soon(waiting)
            raise
        finally:
            self._asking -= 1

    def wake(self) -> None:
        """Something may be ready."""
        self._wakes += 1
        self._woken = True
        self._start_soon()

    def dismiss(self) -> None:
        """Answer everyone who waits with nothing, now and from now on."""
        self._closed = True
        for waiting in (*self._fresh, *self._waiting):
            self._send_home(waiting)
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
        free = CALLS - self._acking()
        while len(self._calls) < free and (batch := self._take(alone=free == CALLS and not self._calls)):
            task = asyncio.create_task(self._serve(batch), name="queen-pop")
            self._calls.add(task)
            task.add_done_callback(self._called)
        if not self._calls and not self.parked and self._crowd.gone:
            self._set_alarm(None)
            self._retire()

    def _called(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._start_soon()

    def _take(self, *, alone: bool) -> list[Parked]:
        batch: list[Parked] = []
        # With nothing under way a crowd is split, so that the database works on one part while we read the other.
        limit = (len(self._fresh) + 1) // CALLS if alone and len(self._fresh) > CROWD else TOGETHER
        while self._fresh and len(batch) < min(limit, TOGETHER):
            waiting = self._fresh.popleft()
            if not waiting.answer.done():
                batch.append(waiting)
        if self._woken:
            self._woken = False
            for waiting in list(self._waiting)[:WOKEN]:
                del self._waiting[waiting]
                batch.append(waiting)
        return batch

    async def _serve(self, batch: list[Parked]) -> None:
        wakes = self._wakes
        crowded = not batch[0].request.auto_ack and self._crowd.gathers(self._asking)
        try:
            offer = await self._offer(batch, self._crowd.length(self._asking) if crowded else 1)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to those who wait
            for waiting in batch:
                self._stop_timer(waiting)
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            self._set_alarm(self._poll)
            return
        self.queue_id = offer.queue_id
        left = [waiting for waiting, messages in zip(batch, offer.found, strict=True) if not messages]
        self._crowd.served(everyone=not left, lease=offer.lease)
        for waiting, messages in zip(batch, offer.found, strict=True):
            if messages:
                self._hand_over(waiting, messages, crowded=crowded)
        missed = offer.again or self._wakes != wakes
        for waiting in left:
            self._park(waiting, fresh=missed and waiting.request.wait > 0)
        self._woken = self._woken or not left
        if left and not missed:
            self._set_alarm(self._poll if offer.next_in is None else min(self._poll, offer.next_in))

    def _park(self, waiting: Parked, *, fresh: bool) -> None:
        if waiting.answer.done() or self._closed or waiting.deadline <= self._loop.time():
            self._send_home(waiting)
            return
        if waiting.timer is None:
            waiting.timer = self._loop.call_at(waiting.deadline, self._send_home, waiting)
        if fresh:
            self._fresh.append(waiting)
        else:
            self._waiting[waiting] = None

    def _hand_over(self, waiting: Parked, messages: list[Message], *, crowded: bool) -> None:
        self._stop_timer(waiting)
        if waiting.answer.done():
            self._return_soon(waiting)
        elif crowded and waiting.request.batch == 1:
            waiting.answer.set_result(self._crowd.begin(waiting.lease, messages))
        else:
            waiting.answer.set_result(messages)

    def _serve_from(self, run: Run) -> bool:
        """Give the next message of a run to whoever waits longest for one; tells whether there is someone."""
        if not self._waiting and not self._fresh:
            return False
        for waiting in chain(self._waiting, self._fresh):
            if waiting.request.batch == 1 and not waiting.answer.done():
                self._waiting.pop(waiting, None)
                self._stop_timer(waiting)
                waiting.lease = run.lease
                waiting.answer.set_result(run.give())
                return True
        return False

    def _return_soon(self, waiting: Parked) -> None:
        """The caller went away while we asked: its work must not wait for the lease to run out."""
        task = asyncio.create_task(self._return(waiting))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _return(self, waiting: Parked) -> None:
        with suppress(QueenError):
            await self._give_back(waiting)

    def _send_home(self, waiting: Parked) -> None:
        self._stop_timer(waiting)
        self._waiting.pop(waiting, None)
        if not waiting.answer.done():
            waiting.answer.set_result([])
        self._start_soon()

    def _stop_timer(self, waiting: Parked) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
            waiting.timer = None

    def _set_alarm(self, seconds: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        # Everyone is asked for at once by the poll: it is the truth, not a hint.
        self._alarm = None
        self._woken = True
        self._start_soon()
