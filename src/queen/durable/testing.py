"""Test kit: workflows in memory, with a clock that jumps, and crash points by name.

>>> async with WorkflowEnvironment(workflows=[remind], activities=[send_mail]) as env:
...     handle = await env.client.start(remind, "a@b.c")
...     assert await env.result(handle) == "sent after 30 days"
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from queen.durable.client import WorkflowClient, WorkflowHandle
from queen.durable.definition import Activity, Workflow
from queen.durable.provider import Provider
from queen.durable.replay.check import check_replay
from queen.durable.stores import open_provider
from queen.durable.worker.crash import CrashPoint, CrashPoints
from queen.durable.worker.settings import WorkerSettings
from queen.durable.worker.worker import Worker

__all__ = ["CrashPoint", "CrashPoints", "ManualClock", "WorkflowEnvironment", "check_replay", "eventually"]

R = TypeVar("R")

_LOOK_SECONDS = 0.002
_HAND_OVER_STEPS = 20


class ManualClock:
    """A clock that runs with real time and can be moved forward by hand."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def advance(self, duration: timedelta) -> None:
        """Jump forward."""
        self._ahead_ms += max(0, round(duration / timedelta(milliseconds=1)))


class WorkflowEnvironment:
    """A store in memory, a worker and a client; waiting skips time instead of passing it."""

    def __init__(
        self,
        *,
        workflows: Sequence[Workflow[Any, *tuple[Any, ...]]],
        activities: Sequence[Activity[Any, *tuple[Any, ...]]] = (),
        settings: WorkerSettings | None = None,
        crash_points: CrashPoints | None = None,
    ) -> None:
        self.clock = ManualClock()
        self._workflows = workflows
        self._activities = activities
        self._settings = settings
        self._crash_points = crash_points
        self._provider: Provider | None = None
        self._worker: Worker | None = None

    async def __aenter__(self) -> Self:
        self._provider = await open_provider("sqlite::memory:", clock=self.clock)
        self._worker = Worker(
            self._provider,
            workflows=self._workflows,
            activities=self._activities,
            settings=self._settings,
            crash_points=self._crash_points,
        )
        await self._worker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.worker.stop()
        await self.provider.close()

    @property
    def provider(self) -> Provider:
        """The store."""
        if self._provider is None:
            raise RuntimeError("use the environment inside `async with`")
        return self._provider

    @property
    def worker(self) -> Worker:
        """The worker."""
        if self._worker is None:
            raise RuntimeError("use the environment inside `async with`")
        return self._worker

    @property
    def client(self) -> WorkflowClient:
        """A client on the store."""
        return WorkflowClient(self.provider)

    async def result(self, handle: WorkflowHandle[R], timeout: float = 10.0) -> R:
        """The result of a workflow; whenever all work waits for a time, that time comes at once."""
        waiting = asyncio.ensure_future(handle.result(timeout))
        try:
            while not waiting.done():
                await self.skip_to_next()
                await asyncio.wait({waiting}, timeout=_LOOK_SECONDS)
            return await waiting
        finally:
            waiting.cancel()

    async def skip(self, duration: timedelta) -> None:
        """Move the clock forward."""
        self.clock.advance(duration)
        self.provider.wake()

    async def skip_to_next(self) -> None:
        """When nothing runs and nothing is due, jump to the next moment something is."""
        if not self.worker.is_idle:
            return
        due = await self.provider.next_due_ms()
        ahead = 0 if due is None else due - self.clock()
        # Work locked before that answer is on its way to a slot, and its lock may be what is due.
        for _ in range(_HAND_OVER_STEPS):
            await asyncio.sleep(0)
        if ahead > 0 and self.worker.is_idle:
            await self.skip(timedelta(milliseconds=ahead))


async def eventually(look: Callable[[], Any], *, within: float = 10.0, what: str = "it") -> Any:
    """Ask (or await) again and again until the answer is true; `TimeoutError` when that takes too long."""
    deadline = time.monotonic() + within
    while True:
        found = look()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {within} s")
        await asyncio.sleep(_LOOK_SECONDS)
