"""Waiting without polling: fetches sleep until they are told of work, or until known work falls due."""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from queen.durable.provider import ProviderError

__all__ = ["Changes", "Clock", "Ride", "ServerClock", "Signal", "Waiter", "long_poll", "system_clock"]

Clock = Callable[[], int]
Names = Collection[str] | None
Item = TypeVar("Item")


def system_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class ServerClock:
    """The clock of a server as last told, running on by our monotonic one: ours may be wrong, or be set meanwhile."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead: int | None = None

    def __call__(self) -> int:
        """Milliseconds since 1970; our own until the server's is known."""
        return system_clock() if self._ahead is None else _monotonic() + self._ahead

    def set(self, server_ms: int) -> None:
        """Learn what time it just was at the server."""
        self._ahead = server_ms - _monotonic()


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True, eq=False)
class Ride:
    """A waiting fetch that is carried out by a commit that makes work for it, in the same transaction."""

    waiter: "Waiter"
    news: int
    answer: "asyncio.Future[tuple[list[Any], int | None] | None]"

    def give(self, found: list[Any], due_ms: int | None) -> bool:
        """Hand over what was fetched and when more falls due; false when nobody waits any more."""
        if self.answer.cancelled():
            return False
        self.answer.set_result((found, due_ms))
        return True

    def untaken(self) -> list[Any]:
        """What a waiter was given that is cancelled at the same moment; an answer still to come is not wanted."""
        if self.answer.cancel() or self.answer.cancelled():
            return []
        answer = self.answer.result()
        return [] if answer is None else answer[0]

    def decline(self) -> None:
        """The commit did not take place."""
        if not self.answer.done():
            self.answer.set_result(None)


class Waiter:
    """One long poll: what it was told since it last looked."""

    __slots__ = ("_clock", "_names", "_ride", "_told", "_waiting", "due_ms", "kind", "limit", "wanted", "woken")

    def __init__(self, clock: Clock, wanted: Any, limit: int, kind: Hashable, names: Names = None) -> None:
        self._clock = clock
        self._names = names
        self._told = asyncio.Event()
        self.wanted = wanted
        self.limit = limit
        self.kind = kind
        self._ride: Ride | None = None
        self._waiting = False
        self.woken = False
        self.due_ms: int | None = None

    def takes(self, names: Names) -> bool:
        """Whether it may take something of these names; None: of any name."""
        return names is None or self._names is None or not set(names).isdisjoint(self._names)

    def reset(self) -> None:
        """Forget what was told; called just before looking."""
        self.woken = False
        self.due_ms = None
        self._told.clear()

    def expect(self, due_ms: int | None) -> None:
        """Learn that something falls due then."""
        if due_ms is not None and (self.due_ms is None or due_ms < self.due_ms):
            self.due_ms = due_ms
            self._told.set()

    def wake(self) -> None:
        """Learn that there may be work now."""
        self.woken = True
        self._told.set()

    def board(self, news: int) -> Ride | None:
        """Let a commit carry out the fetch, unless it is just about to look itself."""
        if self.woken or self._ride is not None or not self._waiting:
            return None
        self._ride = Ride(self, news, asyncio.get_running_loop().create_future())
        self._told.set()
        return self._ride

    async def wait(self, limit: float) -> Ride | None:
        """Return when woken, when something is due, after ``limit`` seconds, or with an answered ride."""
        deadline = asyncio.get_running_loop().time() + limit
        self._waiting = True
        try:
            while not self.woken and self._ride is None:
                left = deadline - asyncio.get_running_loop().time()
                if self.due_ms is not None:
                    left = min(left, (self.due_ms - self._clock()) / 1000)
                if left <= 0:
                    break
                self._told.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._told.wait()
            if self._ride is not None:
                await asyncio.wait((self._ride.answer,))
        finally:
            self._waiting = False
        ride, self._ride = self._ride, None
        return ride

    def untaken(self) -> list[Any]:
        """What a cancelled wait was given all the same."""
        return [] if self._ride is None else self._ride.untaken()


@dataclass(frozen=True, slots=True)
class Drained:
    """What a look that took everything knew: the count of news then, its time, and when more falls due."""

    news: int
    at: float
    due_ms: int | None


class Signal:
    """Tells the long polls of one queue that there is, or will be, something to fetch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiters: set[Waiter] = set()
        self._news = 0
        self._drained: dict[Hashable, Drained] = {}
        self.closed = False

    @property
    def news(self) -> int:
        """Grows with every notice."""
        return self._news

    def remember(self, kind: Hashable, drained: "Drained") -> None:
        """A look of this kind has taken all there was."""
        self._drained[kind] = drained

    def still_drained(self, kind: Hashable, oldest: float) -> "Drained | None":
        """What the last look of this kind learned, when nothing was told since and it is not too old."""
        drained = self._drained.pop(kind, None)
        return drained if drained is not None and drained.news == self._news and drained.at >= oldest else None

    @property
    def idle(self) -> bool:
        """Whether nobody is waiting."""
        return not self._waiters

    @contextmanager
    def subscribe(self, wanted: Any, limit: int, kind: Hashable, names: Names = None) -> Iterator[Waiter]:
        """Be told of everything from here on, or of what has one of these names."""
        waiter = Waiter(self._clock, wanted, limit, kind, names)
        self._waiters.add(waiter)
        try:
            yield waiter
        finally:
            self._waiters.discard(waiter)

    def notify(self, visible_at_ms: int | None = None, names: Names = None) -> None:
        """Something was queued, visible now or from ``visible_at_ms``, of these names."""
        self._news += 1
        if visible_at_ms is None or visible_at_ms <= self._clock():
            for waiter in self._waiters:
                if waiter.takes(names):
                    waiter.wake()
        else:
            for waiter in self._waiters:
                waiter.expect(visible_at_ms)

    def board(self, names: Names = None) -> Ride | None:
        """A waiting fetch for a commit to carry out; the one who asks must give it an answer or decline."""
        rides = (waiter.board(self._news) for waiter in self._waiters if waiter.takes(names))
        return None if self.closed else next((ride for ride in rides if ride is not None), None)

    def notify_others(self, served: Waiter, names: Names = None) -> None:
        """Something was queued, and this waiter was given all there was of its kind."""
        self._drained = {kind: drained for kind, drained in self._drained.items() if kind == served.kind}
        for waiter in self._waiters:
            if waiter is not served and waiter.takes(names):
                waiter.wake()

    def close(self) -> None:
        """End every wait."""
        self.closed = True
        self.notify()


async def long_poll(
    signal: Signal,
    look: Callable[[Waiter], Awaitable[tuple[list[Item], int | None, int]]],
    *,
    wanted: Any,
    limit: int,
    kind: Hashable,
    poll_timeout_ms: int,
    fallback_seconds: Callable[[], float],
    give_back: Callable[[list[Item]], Awaitable[None]],
    names: Names = None,
) -> list[Item]:
    """Look, and look again whenever told to, until something is found or the time is up.

    ``look`` answers what it found, when more falls due, and how many news there had been when it was made.
    Without news it runs every ``fallback_seconds`` at most, in case a notification was lost. A look that found less
    than ``limit`` has drained the queue for its ``kind`` of look: the next one is put off until there is news. While
    it waits, a commit may carry out the fetch: ``wanted`` says what. A caller that is cancelled gives back what it was
    given at that moment.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + poll_timeout_ms / 1000
    with signal.subscribe(wanted, limit, kind, names) as waiter:
        known = signal.still_drained(kind, loop.time() - fallback_seconds()) if poll_timeout_ms > 0 else None
        while True:
            waiter.reset()
            news, found, due_ms = signal.news, list[Item](), known.due_ms if known else None
            if known is None:
                found, due_ms, news = await look(waiter)
            known = None
            left = deadline - loop.time()
            if not found and left > 0 and not signal.closed:
                waiter.expect(due_ms)
                try:
                    ride = await waiter.wait(min(left, fallback_seconds()))
                except asyncio.CancelledError:
                    with contextlib.suppress(ProviderError):
                        await give_back(waiter.untaken())
                    raise
                if ride is None or (answer := ride.answer.result()) is None:
                    continue
                news, (found, due_ms) = ride.news, answer
                known = None if found or signal.news != news else Drained(news, loop.time(), due_ms)
            if found and len(found) < limit:
                signal.remember(kind, Drained(news, loop.time(), due_ms))
            if found or left <= 0 or signal.closed:
                return found


class Changes:
    """Tells who waits for an instance that one of its turns was committed."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, dict[asyncio.Event, bool]] = defaultdict(dict)

    @property
    def idle(self) -> bool:
        """Whether nobody is waiting."""
        return not self._waiting

    def waiting(self) -> list[str]:
        """The instances somebody waits for."""
        return list(self._waiting)

    def notify(self, instance: str, *, ended: bool = True) -> None:
        """A turn of this instance was committed, and may have ``ended`` it."""
        for event, only_end in self._waiting.get(instance, {}).items():
            if ended or not only_end:
                event.set()

    def notify_all(self) -> None:
        """A turn of some instance was committed elsewhere."""
        for instance in self.waiting():
            self.notify(instance)

    async def wait(self, instance: str, seconds: float, *, ended: bool = False) -> None:
        """Wait for the next change of an instance, or for its end."""
        event = asyncio.Event()
        self._waiting[instance][event] = ended
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
        finally:
            del self._waiting[instance][event]
            if not self._waiting[instance]:
                del self._waiting[instance]
