"""A worker runs registered code against a provider until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from queen.durable.provider import Provider, ProviderError
from queen.durable.registry import Registry
from queen.durable.worker.activities import ActivityLoop
from queen.durable.worker.counters import Counters
from queen.durable.worker.crash import CrashPoints
from queen.durable.worker.housekeeping import Housekeeping
from queen.durable.worker.running import RunningActivities
from queen.durable.worker.settings import WorkerSettings, renewal_interval
from queen.durable.worker.turns import TurnLoop

_log = logging.getLogger("queen.durable.worker")


class WorkerCore:
    """Orchestration and activity slots, lock renewal and session upkeep on one event loop."""

    def __init__(
        self,
        provider: Provider,
        registry: Registry,
        settings: WorkerSettings | None = None,
        *,
        client: Callable[[], Any] | None = None,
        runs_turns: bool = True,
        runs_activities: bool = True,
        crash: CrashPoints | None = None,
    ) -> None:
        self.counters = Counters()
        self._provider = provider
        self._settings = settings or WorkerSettings()
        running, crash = RunningActivities(), crash or CrashPoints()
        self._turns = TurnLoop(provider, registry, self._settings, self.counters, running, crash)
        self._activities = ActivityLoop(
            provider, registry, self._settings, self.counters, running, crash, client or (lambda: None)
        )
        self._runs_turns = runs_turns
        self._runs_activities = runs_activities
        self._housekeeping = Housekeeping(
            provider,
            registry,
            self._settings,
            self._turns if runs_turns else None,
            self._activities if runs_activities else None,
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_idle(self) -> bool:
        """Whether no turn and no activity runs here."""
        return self._turns.is_idle and self._activities.is_idle

    async def start(self) -> None:
        """Begin to fetch work."""
        loops: list[Coroutine[Any, Any, None]] = []
        if self._runs_turns:
            loops += [self._turns.run(), self._turns.renewal.run()]
        if self._runs_activities:
            loops += [self._activities.run(), self._activities.renewal.run(), self._keep_sessions()]
        if loops:
            loops.append(self._housekeeping.run())
        self._tasks = [asyncio.create_task(each) for each in loops]

    async def stop(self, timeout: float = 1.0) -> None:
        """Stop fetching, give running work `timeout` seconds, hand the rest back."""
        await asyncio.gather(self._turns.stop(timeout), self._activities.stop(timeout))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._turns.close()
        self._activities.close()

    async def _keep_sessions(self) -> None:
        await self._activities.session_seen.wait()
        settings = self._settings
        interval = renewal_interval(settings.session_lock_timeout_ms, settings.session_lock_renewal_buffer_ms)
        while True:
            await asyncio.sleep(interval)
            try:
                await self._provider.renew_session_lock(
                    [settings.node_id],
                    extend_ms=settings.session_lock_timeout_ms,
                    idle_timeout_ms=settings.session_idle_timeout_ms,
                )
                await self._provider.cleanup_orphaned_sessions()
            except ProviderError as error:
                _log.warning("sessions could not be renewed: %s", error)
