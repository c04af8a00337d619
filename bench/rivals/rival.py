"""What every queue of the comparison has to do: the same work, in its own way."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

NOTE = "x" * 170


@dataclass(frozen=True)
class Place:
    """Where it may run: a database of its own on the common server, and a directory."""

    url: str
    directory: str


class Rival(ABC):
    """One queue. `shared`: how many single messages share a commit; `lacks`: what it does not promise."""

    name: str
    shared: str
    lacks: str
    callers = 8

    def __init__(self, place: Place) -> None:
        self.place = place
        self._number = 0

    @property
    def servers(self) -> list[int]:
        """The processes of its own servers, beside the common PostgreSQL."""
        return []

    @property
    def clients(self) -> list[int]:
        """The processes of its own clients, beside this one."""
        return []

    @property
    def uses_postgres(self) -> bool:
        """Whether the common server works for it."""
        return True

    @abstractmethod
    async def open(self) -> None:
        """Start, and make an empty queue."""

    @abstractmethod
    async def close(self) -> None:
        """Stop."""

    @abstractmethod
    async def push(self, payloads: list[str]) -> None:
        """Store these in one call; back when they are on disk."""

    @abstractmethod
    async def take(self, batch: int) -> list[str]:
        """Take up to so many and acknowledge them; the payloads, none when there is nothing."""

    @abstractmethod
    async def wait(self) -> list[str]:
        """Like `take` of one, but wait for it, five seconds at most."""

    def payloads(self, count: int) -> list[str]:
        """So many new payloads of 200 bytes."""
        first, self._number = self._number, self._number + count
        return [json.dumps({"n": number, "note": NOTE}) for number in range(first, first + count)]

    async def fill(self, count: int) -> None:
        """Store so many."""
        await asyncio.gather(*(self._fill(count // self.callers // 500) for _ in range(self.callers)))

    async def _fill(self, calls: int) -> None:
        for _ in range(calls):
            await self.push(self.payloads(500))

    async def run_push(self, batch: int, seconds: float) -> int:
        """Callers that push one call after the other; how many messages."""
        end = time.perf_counter() + seconds

        async def work() -> int:
            done = 0
            while time.perf_counter() < end:
                await self.push(self.payloads(batch))
                done += batch
            return done

        return sum(await asyncio.gather(*(work() for _ in range(self.callers))))

    async def run_take(self, batch: int, seconds: float) -> int:
        """Callers that take and acknowledge; how many messages. Ends early when there is nothing left."""
        end = time.perf_counter() + seconds

        async def work() -> int:
            done = 0
            while time.perf_counter() < end and (found := await self.take(batch)):
                done += len(found)
            return done

        return sum(await asyncio.gather(*(work() for _ in range(self.callers))))

    async def run_delivery(self, rate: int, seconds: float) -> list[float]:
        """One producer at a steady rate and callers that wait: seconds from each push to its delivery."""
        sent: dict[int, float] = {}
        times: list[float] = []
        stop = asyncio.Event()

        async def consume() -> None:
            while not stop.is_set():
                numbers = [json.loads(payload)["n"] for payload in await self.wait()]
                now = time.perf_counter()
                times.extend(now - sent[number] for number in numbers if number in sent)

        consumers = [asyncio.create_task(consume()) for _ in range(self.callers)]
        started, pushes = time.perf_counter(), set()
        for turn in range(int(rate * seconds)):
            await asyncio.sleep(max(started + turn / rate - time.perf_counter(), 0))
            [payload] = self.payloads(1)
            sent[json.loads(payload)["n"]] = time.perf_counter()
            pushes.add(task := asyncio.create_task(self.push([payload])))
            task.add_done_callback(pushes.discard)
        await asyncio.gather(*pushes)
        stop.set()
        await asyncio.wait(consumers, timeout=8)
        for consumer in consumers:
            consumer.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
        return times
