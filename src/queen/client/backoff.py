"""How a task is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass

from queen.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often a task is tried and how long it waits in between. Times are seconds.

    The wait after attempt n is `first` * `factor` ** (n - 1), at most `longest`, more or less by up to the share
    `jitter`. After `attempts` of them, or at once for an exception of `give_up`, the message is a dead letter.
    """

    attempts: int = 4
    first: float = 1.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: float = 0.1
    give_up: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidRequest("attempts", "attempts must be at least 1")
        if not 0 <= self.first <= 86_400 or not 0 <= self.longest <= 86_400:
            raise InvalidRequest("first", "first and longest must be between 0 and 86400 seconds")
        if self.factor < 1 or not 0 <= self.jitter <= 1:
            raise InvalidRequest("factor", "factor must be at least 1 and jitter between 0 and 1")

    def delay(self, attempt: int, error: Exception) -> float | None:
        """How long to wait after this attempt failed; None: it was the last one."""
        if attempt >= self.attempts or isinstance(error, self.give_up):
            return None
        wait = min(self.first * self.factor ** min(attempt - 1, 64), self.longest)
        return min(wait * random.uniform(1 - self.jitter, 1 + self.jitter), 86_400)  # noqa: S311 - jitter, no secret
