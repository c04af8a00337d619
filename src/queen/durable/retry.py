"""Retrying an activity durably: attempts, waits and time limits are all part of history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, Self

from queen.durable.errors import ActivityFailed, ActivityTimedOut
from queen.durable.events import ApplicationFailure
from queen.durable.replay.action import RunActivity, StartTimer
from queen.durable.replay.machine import Machine
from queen.durable.replay.promise import Promise, Task, race

Backoff = Literal["exponential", "linear", "fixed"]

_LONGEST_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently an activity is tried again.

    `timeout` limits one attempt, `total_timeout` everything from the first attempt to the last, waits
    included. Reaching either ends the retrying at once. Between attempts: `exponential` doubles from
    100 ms, `linear` adds 100 ms each time, both up to 30 s; `fixed` is one second. `first_delay` replaces
    those starting values. An error whose class, or a base of it, is in `non_retryable` (a class, or its name)
    is not tried again, nor is `NonRetryable`. Each attempt can read what the one before told with `heartbeat`.
    """

    max_attempts: int = 3
    timeout: timedelta | None = None
    total_timeout: timedelta | None = None
    backoff: Backoff = "exponential"
    first_delay: timedelta | None = None
    non_retryable: Sequence[type[BaseException] | str] = ()

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, got {self.max_attempts}")

    @classmethod
    def from_mapping(cls, retry: Mapping[str, Any]) -> Self:
        """From the plain dict of the generator style; snake_case and camelCase keys."""

        def read(snake: str, camel: str) -> Any:
            return retry.get(snake, retry.get(camel))

        word = read("backoff", "backoff")
        timeout, total = read("timeout_ms", "timeoutMs"), read("total_timeout_ms", "totalTimeoutMs")
        return cls(
            max_attempts=max(1, int(read("max_attempts", "maxAttempts") or 3)),
            timeout=None if timeout is None else timedelta(milliseconds=timeout),
            total_timeout=None if total is None else timedelta(milliseconds=total),
            backoff=_WORDS.get(word, "linear"),
        )

    def gives_up(self, failed: ActivityFailed) -> bool:
        """Whether this error is not worth another attempt."""
        details = failed.details
        if not isinstance(details, ApplicationFailure):
            return False
        named = {each if isinstance(each, str) else each.__name__ for each in self.non_retryable}
        return details.non_retryable or not named.isdisjoint(details.error_types)

    def delay_ms(self, attempt: int) -> int:
        """How long to wait after the given failed attempt (1, 2, ...)."""
        if self.backoff == "fixed":
            return _ms(self.first_delay, 1000)
        first = _ms(self.first_delay, 100)
        grown = first * attempt if self.backoff == "linear" else first * 2 ** min(attempt - 1, 30)
        return min(grown, max(_LONGEST_MS, first))


_WORDS: Mapping[Any, Backoff] = {None: "exponential", "exponential": "exponential", "fixed": "fixed"}


def run_with_retry(machine: Machine, wanted: RunActivity, policy: RetryPolicy) -> Promise[str]:
    """Run an activity under a policy; the promise holds the first success, or the last failure."""
    return Task(machine.scheduler, _within_total(machine, wanted, policy)).start()


async def _within_total(machine: Machine, wanted: RunActivity, policy: RetryPolicy) -> str:
    if policy.total_timeout is None:
        return await _attempts(machine, wanted, policy)
    attempts = Task(machine.scheduler, _attempts(machine, wanted, policy)).start()
    return await _limited(machine, attempts, policy.total_timeout)


async def _attempts(machine: Machine, wanted: RunActivity, policy: RetryPolicy) -> str:
    attempt = 1
    while True:
        action = replace(wanted)
        try:
            return await _attempt(machine, action, policy)
        except ActivityTimedOut:
            raise
        except ActivityFailed as failed:
            if attempt >= policy.max_attempts or policy.gives_up(failed):
                raise
            progress = failed.progress or wanted.progress
            wanted = replace(wanted, progress=progress, first_id=wanted.first_id or action.event_id)
        await machine.start_timer(StartTimer(delay_ms=policy.delay_ms(attempt)))
        attempt += 1


async def _attempt(machine: Machine, wanted: RunActivity, policy: RetryPolicy) -> str:
    running = machine.run_activity(wanted)
    return await (running if policy.timeout is None else _limited(machine, running, policy.timeout))


async def _limited(machine: Machine, running: Promise[str], limit: timedelta) -> str:
    timer = machine.start_timer(StartTimer(delay_ms=_ms(limit, 0)))
    winner = await race(machine.scheduler, [running, timer])
    if winner.index == 1:
        raise ActivityTimedOut
    result: str = winner.value
    return result


def _ms(value: timedelta | None, default: int) -> int:
    return default if value is None else round(value / timedelta(milliseconds=1))
