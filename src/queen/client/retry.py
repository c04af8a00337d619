"""Try again, with full jitter, what a later attempt may do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from queen.client.errors import AnswerLost
from queen.db.pool import OutcomeUnknown
from queen.errors import QueenError, QueueFull

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how fast to try again. Times are seconds."""

    attempts: int = 8
    base: float = 0.1
    cap: float = 5.0

    def delay(self, attempt: int) -> float:
        """A random pause before attempt `attempt` + 1, from nothing up to the doubled limit."""
        return random.uniform(0, min(self.cap, self.base * 2**attempt))  # noqa: S311 - jitter, no secret

    async def run(self, call: Callable[[], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Do `call` until it succeeds or what went wrong will not mend.

        Not `repeatable`: a call of unknown outcome is not made again, since it may have happened.
        """
        for attempt in range(self.attempts):
            try:
                return await call()
            except QueenError as error:
                given_up = attempt == self.attempts - 1 or not error.retryable or isinstance(error, QueueFull)
                if given_up or (isinstance(error, OutcomeUnknown | AnswerLost) and not repeatable):
                    raise
                await asyncio.sleep(max(self.delay(attempt), float(error.figures.get("retry_after", 0))))
        raise AssertionError("unreachable")

    async def run_with_room(self, call: Callable[[], Awaitable[T]], limit: float) -> T:
        """The same, and wait up to `limit` seconds for room in a full queue."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        attempt = 0
        while True:
            try:
                return await self.run(call)
            except QueueFull:
                left = deadline - loop.time()
                if left <= 0:
                    raise
                await asyncio.sleep(min(max(self.delay(attempt), 0.01), left))
                attempt = min(attempt + 1, 10)
