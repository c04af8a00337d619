"""What a worker does now and then for all: says which code it has, deals with what nobody has code for or waits for."""

from __future__ import annotations

import asyncio
import logging

from queen.durable.model import InstanceFilter
from queen.durable.provider import Provider, ProviderError
from queen.durable.registry import Registry
from queen.durable.worker.activities import ActivityLoop
from queen.durable.worker.settings import WorkerSettings
from queen.durable.worker.turns import TurnLoop

_log = logging.getLogger("queen.durable.worker")
_FORGET_MS = 600_000
_DELETED_AT_ONCE = 500


class Housekeeping:
    """Runs every `housekeeping_ms`, or twice within `unregistered_after_ms` when that is shorter."""

    def __init__(
        self,
        provider: Provider,
        registry: Registry,
        settings: WorkerSettings,
        turns: TurnLoop | None,
        activities: ActivityLoop | None,
    ) -> None:
        self._provider = provider
        self._registry = registry
        self._settings = settings
        self._turns = turns
        self._activities = activities

    async def run(self) -> None:
        """Look after things until cancelled."""
        interval = min(self._settings.housekeeping_ms, self._settings.unregistered_after_ms / 2) / 1000
        while True:
            try:
                await self._once()
            except ProviderError as error:
                if error.code == "closed":
                    return
                _log.warning("housekeeping failed, trying again in %.1f s: %s", interval, error)
            await asyncio.sleep(interval)

    async def _once(self) -> None:
        await self._provider.announce(
            handlers=self._registry.handlers if self._turns is not None else (),
            activities=self._registry.activities if self._activities is not None else (),
            forget_after_ms=max(_FORGET_MS, 2 * self._settings.unregistered_after_ms),
        )
        if self._turns is None:
            if self._activities is not None:
                await self._activities.take_unknown()
            return
        await self._turns.take_unknown()
        if self._activities is not None:
            await self._activities.take_unknown()
        for instance in await self._provider.expire_orphans(self._settings.orphans_kept_ms):
            _log.warning("messages to %s were put among the dead letters: it was never started", instance)
        await self._delete_old()

    async def _delete_old(self) -> None:
        kept = self._settings.retention_ms
        if kept is None:
            return
        old = InstanceFilter(completed_before_ms=self._provider.now_ms() - kept, limit=_DELETED_AT_ONCE)
        gone = await self._provider.delete_instances(old)
        if gone.instances:
            _log.info("%d instances that ended more than %d ms ago were deleted", gone.instances, kept)
