"""What each service does in one run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from queen.config import Settings
from queen.engine import Engine
from queen.engine.services import Service
from queen.sql import query

# A run of retention stops after this long and goes on in the next, so that it never holds up the others for ever.
RETENTION_LIMIT: Final = 60.0
_DUE: Final = 1000


def all_services(engine: Engine, settings: Settings) -> list[Service]:
    """Every service of an engine, with the intervals of the settings."""
    jobs = Jobs(engine, settings)
    return [
        Service("retention", settings.retention_interval, jobs.retention),
        Service("eviction", settings.eviction_interval, jobs.eviction),
        Service("scheduled", 0.5, jobs.scheduled),
        Service("leases", 10.0, jobs.leases),
        Service("stats", settings.stats_interval, jobs.stats),
        Service("deliveries", 3600.0, jobs.deliveries),
        Service("partitions", 3600.0, jobs.partitions),
    ]


class Jobs:
    """The services' work on one engine."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._database = engine.database
        self._settings = settings

    async def retention(self) -> Mapping[str, Any]:
        """Remove messages past their time, in short transactions, for at most a minute."""
        deadline = asyncio.get_running_loop().time() + RETENTION_LIMIT
        removed = 0
        finished = True
        for row in await self._database.fetch(query("services/retained_queues")):
            after: int | None = 0
            while after is not None:
                if asyncio.get_running_loop().time() > deadline:
                    finished = False
                    break
                chunk = await self._database.fetchrow(query("services/retain_queue"), row["id"], after)
                after = chunk["last_partition"]
                removed += chunk["removed"]
        return {"removed": removed, "finished": finished}

    async def eviction(self) -> Mapping[str, Any]:
        """Dead-letter messages that waited longer than their queue allows."""
        evicted = 0
        for row in await self._database.fetch(query("services/evicting_queues")):
            evicted += (await self._database.fetchrow(query("services/evict_queue"), row["id"]))["evicted"]
        return {"evicted": evicted}

    async def scheduled(self) -> Mapping[str, Any]:
        """Push scheduled messages that are due."""
        delivered = 0
        while True:
            row = await self._database.fetchrow(query("services/deliver_due"), _DUE)
            delivered += row["delivered"]
            for queue_id in row["queue_ids"]:
                self._engine.wake.ready(None, queue_id)
            if row["delivered"] < _DUE:
                return {"delivered": delivered}

    async def leases(self) -> Mapping[str, Any]:
        """Count live leases and those that ran out."""
        return dict(await self._database.fetchrow(query("services/count_leases")))

    async def stats(self) -> Mapping[str, Any]:
        """Add what happened since the last run to the minute's statistics."""
        return dict(
            await self._database.fetchrow(query("services/collect_stats"), self._settings.metrics_retention_days)
        )

    async def deliveries(self) -> Mapping[str, Any]:
        """Make the delivery log's slices for the coming days and drop the old ones."""
        return dict(await self._database.fetchrow(query("services/slice_deliveries")))

    async def partitions(self) -> Mapping[str, Any]:
        """Remove partitions that have been empty and idle for long."""
        return dict(
            await self._database.fetchrow(query("services/clean_partitions"), self._settings.partition_cleanup_days)
        )
