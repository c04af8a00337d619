"""The worker of the async style."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from queen.durable.client import WorkflowClient
from queen.durable.definition import Activity, Workflow
from queen.durable.provider import Provider
from queen.durable.registry import Registry
from queen.durable.schedules import SCHEDULE_WORKFLOW
from queen.durable.worker.core import WorkerCore
from queen.durable.worker.counters import Counters
from queen.durable.worker.crash import CrashPoints
from queen.durable.worker.settings import WorkerSettings


class Worker:
    """Runs workflows and activities against a store, inside `async with`.

    A worker without activities leaves all activities to others, one without workflows all workflows.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        workflows: Sequence[Workflow[Any, *tuple[Any, ...]]] = (),
        activities: Sequence[Activity[Any, *tuple[Any, ...]]] = (),
        settings: WorkerSettings | None = None,
        crash_points: CrashPoints | None = None,
    ) -> None:
        registry = Registry()
        for each in activities:
            registry.add_activity(each.registered())
        for workflow in [*workflows, SCHEDULE_WORKFLOW] if workflows else []:
            registry.add_orchestration(workflow.registered())
        self._provider = provider
        self._core = WorkerCore(
            provider,
            registry,
            settings,
            client=lambda: WorkflowClient(provider),
            runs_turns=bool(workflows),
            runs_activities=bool(activities) or any(each.limit is not None for each in workflows),
            crash=crash_points,
        )

    @property
    def counters(self) -> Counters:
        """What the worker did since it started."""
        return self._core.counters

    @property
    def is_idle(self) -> bool:
        """Whether no turn and no activity runs here."""
        return self._core.is_idle

    async def start(self) -> None:
        """Begin to fetch work."""
        await self._core.start()

    async def stop(self, timeout: float = 10.0) -> None:
        """Stop fetching, give running work `timeout` seconds, hand the rest back."""
        await self._core.stop(timeout)

    async def run(self, timeout: float = 10.0) -> None:
        """Work until SIGTERM or SIGINT, then stop in order."""
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told.set)
        try:
            await self.start()
            await told.wait()
        finally:
            await self.stop(timeout)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.stop()
