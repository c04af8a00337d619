"""Long polls: everyone who waits for the same work stands at one desk and shares its database calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from queen.errors import QueenError
from queen.ids import uuid7
from queen.model import Message, PopRequest

TOGETHER: Final = 256


@dataclass(slots=True, eq=False)
class Parked:
    """One request at the desk, with the lease it will get."""

    request: PopRequest
    deadline: float
    answer: asyncio.Future[list[Message]]
    lease: UUID = field(default_factory=uuid7)
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """What one database call had for the parked requests, in their order.

    `next_in`: seconds until something becomes ready by itself, None when nothing will.
    """

    found: list[list[Message]]
    next_in: float | None
    again: bool
    queue_id: int | None


class Desk:
    """Serves requests of one kind, first come first served, with one database call at a time.

    An answer of nothing parks those who may wait until a wake-up, the time the next lane becomes
    ready, or the poll interval, whichever comes first: wake-ups are hints, polling is the truth.
    """

    def __init__(
        self,
        offer: Callable[[Sequence[Parked]], Awaitable[Offer]],
        give_back: Callable[[Parked], Awaitable[None]],
        retire: Callable[[], None],
        poll: float,
    ) -> None:
        self._offer = offer
        self._give_back = give_back
        self._retire = retire
        self._poll = poll
        self._line: dict[Parked, None] = {}
        self._signal = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._returns: set[asyncio.Task[None]] = set()
        self._closed = False
        self.queue_id: int | None = None

    @property
    def parked(self) -> int:
        """How many wait."""
        return len(self._line)

    async def ask(self, request: PopRequest) -> list[Message]:
        """Stand in line until there is something or the request's wait is over."""
        loop = asyncio.get_running_loop()
        waiting = Parked(request, loop.time() + request.wait, loop.create_future())
        self._line[waiting] = None
        self._signal.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._run(), name="queen-desk")
        return await waiting.answer

    def wake(self) -> None:
        """Something may be ready."""
        self._signal.set()

    def dismiss(self) -> None:
        """Answer everyone who waits with nothing, now and from now on."""
        self._closed = True
        self._signal.set()

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while tasks := [task for task in (self._worker, *self._returns) if task is not None]:
            await asyncio.wait(tasks)

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)
            while self._line:
                self._signal.clear()
                pause = await self._serve()
                self._send_home()
                if self._line and pause > 0:
                    await self._pause(pause)
        finally:
            self._worker = None
            self._retire()

    async def _pause(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        deadline = min(waiting.deadline for waiting in self._line)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._signal.wait(), max(min(seconds, deadline - now), 0.001))

    async def _serve(self) -> float:
        """One call for the head of the line; returns how long to wait before the next."""
        line = [waiting for waiting in self._line if not waiting.answer.done()]
        together = line[:TOGETHER]
        if self._closed or not together:
            return 0.0
        try:
            offer = await self._offer(together)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to those who wait
            for waiting in together:
                self._line.pop(waiting, None)
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            return 0.0
        self.queue_id = offer.queue_id
        served = 0
        for waiting, messages in zip(together, offer.found, strict=True):
            if messages:
                served += 1
                self._hand_over(waiting, messages)
        if offer.again or served == len(together):
            return 0.0
        # There was not enough for the head of the line, so there was nothing for the rest of it either.
        for waiting in line:
            waiting.asked = True
        return self._poll if offer.next_in is None else min(self._poll, offer.next_in)

    def _hand_over(self, waiting: Parked, messages: list[Message]) -> None:
        self._line.pop(waiting, None)
        if not waiting.answer.done():
            waiting.answer.set_result(messages)
            return
        # The caller went away while we asked: its work must not wait for the lease to run out.
        task = asyncio.create_task(self._return(waiting))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    async def _return(self, waiting: Parked) -> None:
        with suppress(QueenError):
            await self._give_back(waiting)

    def _send_home(self) -> None:
        now = asyncio.get_running_loop().time()
        for waiting in list(self._line):
            if waiting.answer.done():
                self._line.pop(waiting)
            elif self._closed or (waiting.asked and waiting.deadline <= now):
                self._line.pop(waiting)
                waiting.answer.set_result([])
