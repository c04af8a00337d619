"""What each service does in one run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from queen.config import Settings
from queen.engine import Engine
from queen.engine.services import Service
from queen.errors import QueenError
from queen.sql import query

# A run stops after this share of its interval and the next goes on there: the lease on the service outlasts it.
SHARE: Final = 0.9
# Seconds a transaction of a service should take: whoever meets one of its locks waits no longer than this.
PORTION: Final = 0.01
# Seconds between two portions: a row's lock goes to whoever asks first, and one that waits for it has to wake up.
_REST: Final = 0.002
# Messages in a portion: the first one of a run, and no fewer or more than these, however long they take.
FIRST: Final = 500
SMALLEST: Final = 250
LARGEST: Final = 20_000
# Statistics read every partition's head: they rest so many times as long as they took.
_STATS_REST: Final = 20
_SCHEDULED: Final = 0.5
_HOURLY: Final = 3600.0


def all_services(engine: Engine, settings: Settings) -> list[Service]:
    """Every service of an engine, with the intervals of the settings."""
    jobs = Jobs(engine, settings)
    return [
        Service("retention", settings.retention_interval, jobs.retention),
        Service("eviction", settings.eviction_interval, jobs.eviction),
        Service("scheduled", _SCHEDULED, jobs.scheduled),
        Service("leases", 10.0, jobs.leases),
        Service("stats", settings.stats_interval, jobs.stats),
        Service("deliveries", _HOURLY, jobs.deliveries),
        Service("partitions", _HOURLY, jobs.partitions),
        Service("history", _HOURLY, jobs.history),
        Service("groups", _HOURLY, jobs.groups),
    ]


class Jobs:
    """The services' work on one engine."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._database = engine.database
        self._settings = settings
        # The portions of all services take turns: together they keep no more than one core of the database busy.
        self._turn = asyncio.Lock()
        self._stats_again = 0.0

    async def retention(self) -> Mapping[str, Any]:
        """Remove messages past their time."""
        removed, finished = await self._in_turns("retained_queues", "retain_queue", self._settings.retention_interval)
        return {"removed": sum(removed.values()), "finished": finished}

    async def eviction(self) -> Mapping[str, Any]:
        """Dead-letter messages that waited longer than their queue allows."""
        evicted, finished = await self._in_turns("evicting_queues", "evict_queue", self._settings.eviction_interval)
        return {"evicted": sum(evicted.values()), "finished": finished}

    async def scheduled(self) -> Mapping[str, Any]:
        """Push scheduled messages that are due."""
        delivered, finished = await self._in_turns("due_queues", "deliver_due", _SCHEDULED)
        for queue_id, count in delivered.items():
            if count:
                self._engine.wake.ready(None, queue_id)
        return {"delivered": sum(delivered.values()), "finished": finished}

    async def leases(self) -> Mapping[str, Any]:
        """Count live leases and those that ran out."""
        return dict(await self._database.fetchrow(query("services/count_leases")))

    async def stats(self) -> Mapping[str, Any]:
        """Add what happened since the last run to the minute's statistics; less often where that takes long."""
        began = _now()
        if began < self._stats_again:
            return {"queues": 0}
        row = await self._database.fetchrow(query("services/collect_stats"))
        self._stats_again = began + (_now() - began) * _STATS_REST - self._settings.stats_interval
        return dict(row)

    async def deliveries(self) -> Mapping[str, Any]:
        """Remove what is old from the delivery log."""
        return dict(await self._database.fetchrow(query("services/trim_deliveries")))

    async def partitions(self) -> Mapping[str, Any]:
        """Remove partitions that have been empty and idle for long."""
        return {"removed": await self._until_nothing_is_left("clean_partitions", self._settings.partition_cleanup_days)}

    async def history(self) -> Mapping[str, Any]:
        """Sum statistics up by the hour; remove them, traces, acts and the history of retention where they are old."""
        summed = await self._until_nothing_is_left("roll_up_stats")
        removed = await self._until_nothing_is_left("prune_history", self._settings.metrics_retention_days)
        forgotten = await self._until_nothing_is_left("prune_audit", self._settings.audit_retention_days)
        return {"summed": summed, "removed": removed + forgotten}

    async def groups(self) -> Mapping[str, Any]:
        """Forget groups that nobody has used for long, where the settings say so."""
        days = self._settings.group_expiry_days
        return {"removed": await self._until_nothing_is_left("expire_groups", days) if days else 0}

    async def _until_nothing_is_left(self, portion: str, *args: int) -> int:
        end = _now() + SHARE * _HOURLY
        done = 0
        while _now() < end:
            async with self._turn:
                (count,) = await self._database.fetchrow(query(f"services/{portion}"), *args)
            done += count
            if not count:
                break
        return done

    async def _in_turns(self, queues: str, portion: str, interval: float) -> tuple[dict[int, int], bool]:
        """One portion of each queue's work in turn, so that none waits for another's to end.

        Returns what was done for each queue, and whether all was. A queue whose portion fails is left for the next run
        and does not hold up the others; the error is raised once they are done.
        """
        end = _now() + SHARE * interval
        rows = await self._database.fetch(query(f"services/{queues}"))
        turns = deque((row["id"], (None, None), FIRST) for row in rows)
        done: dict[int, int] = dict.fromkeys((row["id"] for row in rows), 0)
        failure: QueenError | None = None
        served = 0
        while turns and (served < len(rows) or _now() < end):  # every queue has a turn, however long the others took
            served += 1
            queue_id, place, size = turns.popleft()
            try:
                async with self._turn:
                    began = _now()
                    row = await self._database.fetchrow(query(f"services/{portion}"), queue_id, *place, size)
                    spent = _now() - began
                await asyncio.sleep(_REST)
            except QueenError as error:
                failure = failure or error
                continue
            done[queue_id] += row["handled"]
            if row["last_at"] is not None:
                turns.append((queue_id, (row["last_at"], row["last_id"]), _next_size(size, spent)))
        if failure is not None:
            raise failure
        return done, not turns


def _now() -> float:
    return asyncio.get_running_loop().time()


def _next_size(size: int, spent: float) -> int:
    """Larger portions while they take less than they may, smaller ones when they take more."""
    if spent > PORTION:
        return max(size // 2, SMALLEST)
    return min(size * 2, LARGEST) if spent < PORTION / 2 else size
