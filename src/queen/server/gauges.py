"""Numbers that are read when somebody asks: the workers, their pools, the queues and the services."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import psutil
from msgspec import Struct

from queen.db.pool import Row
from queen.errors import QueenError
from queen.server.exposition import family
from queen.server.metrics import OTHER, Verb
from queen.server.shares import Counted, Shares
from queen.sql import query

if TYPE_CHECKING:
    from queen.server.broker import Broker

FRESH: Final = 10.0
_LIMIT: Final = 2.0
_SUMS: Final = {
    "queen_cpu_user_microseconds": "CPU time in user mode.",
    "queen_cpu_system_microseconds": "CPU time in system mode.",
    "queen_db_pool_waits": "Times a connection was asked for.",
    "queen_db_pool_wait_seconds": "Time spent waiting for one.",
}
_LEVELS: Final = {
    "queen_process_resident_memory_bytes": "Resident memory.",
    "queen_process_virtual_memory_bytes": "Virtual memory.",
    "queen_db_pool_size": "Database connections.",
    "queen_db_pool_idle": "Database connections without work.",
    "queen_db_pool_active": "Database connections at work.",
}
_PER_QUEUE: Final = {
    "queen_queue_pushed_per_minute": ("Messages pushed in the last full minute.", "pushed_per_minute"),
    "queen_queue_popped_per_minute": ("Messages popped in the last full minute.", "popped_per_minute"),
    "queen_queue_acked_per_minute": ("Messages acknowledged in the last full minute.", "acked_per_minute"),
    "queen_queue_depth": ("Messages the slowest group has to get, at the last count.", "depth"),
    "queen_queue_partitions": ("Partitions.", "partitions"),
    "queen_queue_leased_partitions": ("Partitions under a live lease, counted per group.", "leased"),
    "queen_dlq_depth_by_queue": ("Dead letters that were not pushed again.", "dead_letters"),
}


class QueueFigures(Struct, kw_only=True):
    """A queue's numbers, or those of all queues that have no row of their own."""

    name: str
    queues: int
    pushed_per_minute: int
    popped_per_minute: int
    acked_per_minute: int
    depth: int
    lag_ms: int
    partitions: int
    leased: int
    dead_letters: int


class ServiceFigures(Struct, kw_only=True):
    """When a service last succeeded (as seconds since 1970), whether it failed since, whether it is late."""

    service: str
    succeeded_at: float | None
    failing: bool
    late: bool


class Figures(Struct, kw_only=True):
    """What the database knows."""

    queues: list[QueueFigures]
    services: list[ServiceFigures]
    totals: dict[str, int]


class Gauges:
    """Reads the database at most every few seconds, whoever asks how often, and answers for all workers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shares = Shares()
        self._process = psutil.Process()
        self._named = broker.settings.metrics_queues
        self._fresh = min(FRESH, broker.settings.stats_interval)

    async def exposition(self) -> bytes:
        """All of them as text for Prometheus."""
        figures = await self._shares.read(Figures, self._fresh, self._read)
        counted = self.counted()
        return (self._broker.metrics.exposition(counted) + "".join(self._families(counted, figures))).encode()

    async def _read(self) -> Figures | None:
        if not self._broker.watch.up:
            return None
        database = self._broker.engine.database
        try:
            async with asyncio.timeout(_LIMIT):
                rows = await database.fetch(query("server/queue_gauges"), self._named, OTHER)
                services = await database.fetch(query("server/service_gauges"))
                totals = await database.fetchrow(query("server/totals"))
        except (QueenError, TimeoutError):
            return None
        return Figures(
            queues=[QueueFigures(**{**_fields(row), "name": row["name"] or OTHER}) for row in rows],
            services=[ServiceFigures(**_fields(row)) for row in services],
            totals=_fields(totals),
        )

    def publish(self) -> None:
        """Let the other workers know what was counted so far."""
        if self._shares.several:
            self._shares.publish(self._own())

    def counted(self) -> list[Counted]:
        """What all workers have counted."""
        return self._shares.counted(self._own())

    def totals(self) -> dict[Verb, tuple[int, int]]:
        """Requests and messages so far, by verb, of all workers."""
        return self._broker.metrics.totals(self.counted())

    def _own(self) -> Counted:
        memory, times = self._process.memory_info(), self._process.cpu_times()
        engine, metrics = self._broker.engine, self._broker.metrics
        batches = engine.batch_sizes
        size, idle = engine.database.sizes
        sums = {
            "queen_cpu_user_microseconds": times.user * 1e6,
            "queen_cpu_system_microseconds": times.system * 1e6,
            "queen_db_pool_waits": engine.database.waits,
            "queen_db_pool_wait_seconds": engine.database.wait_seconds,
        }
        for verb, sizes in batches.items():
            sums[f"calls {verb}"] = sum(each.calls for each in sizes)
            sums[f"requests {verb}"] = sum(each.requests for each in sizes)
        levels: dict[str, float] = {
            "queen_process_resident_memory_bytes": memory.rss,
            "queen_process_virtual_memory_bytes": memory.vms,
            "queen_db_pool_size": size,
            "queen_db_pool_idle": idle,
            "queen_db_pool_active": size - idle,
        }
        return Counted(
            at=time.time(),
            started_at=self._broker.started_at,
            up=self._broker.watch.up,
            refused=metrics.refusals,
            histograms=metrics.distributions,
            sums=sums,
            levels=levels,
            largest={
                verb: max((each.largest for each in sizes), default=0) for verb, sizes in engine.batch_sizes.items()
            },
            parked=engine.parked,
        )

    def _families(self, counted: Sequence[Counted], figures: Figures | None) -> Iterator[str]:
        living = [one for one in counted if one.lives]
        started_at = min(one.started_at for one in living)
        yield _gauge("queen_uptime_seconds", "Since the oldest worker started.", time.time() - started_at)
        for name, text in _SUMS.items():
            yield family("counter", name, text, [({}, sum(one.sums[name] for one in counted))])
        for name, text in _LEVELS.items():
            yield _gauge(name, text, sum(one.levels[name] for one in living))
        yield _gauge("queen_workers", "Processes of this broker.", len(living))
        yield _gauge("queen_db_up", "Whether the database answers, to every worker.", all(one.up for one in living))
        yield from self._microbatches(counted)
        yield from self._broker_state()
        if figures is not None:
            yield from self._queue_families(figures.queues, living)
            yield from self._totals(figures)
            yield from self._services(figures.services)

    def _broker_state(self) -> Iterator[str]:
        broker = self._broker
        stats = broker.buffer.stats
        yield _gauge("queen_file_buffer_pending", "Messages in the disk buffer.", stats.pending)
        yield _gauge("queen_file_buffer_failed", "Pushes that could not be stored when drained.", stats.failed)
        yield _gauge("queen_file_buffer_damaged", "Places in the disk buffer that could not be read.", stats.damaged)
        yield _gauge("queen_file_buffer_cut", "Files of the disk buffer that ended within a record.", stats.cut)
        yield _gauge("queen_file_buffer_age_seconds", "How long the oldest message waits in it.", stats.age)
        yield _gauge("queen_file_buffer_drain_silent_seconds", "Since its drain last looked.", stats.silent)
        yield _gauge("queen_file_buffer_limit_bytes", "Most bytes it takes.", broker.settings.buffer_limit)
        yield _gauge("queen_file_buffer_bytes", "Bytes in the disk buffer.", stats.size)
        yield _gauge("queen_file_buffer_healthy", "Whether the disk buffer works and is undamaged.", stats.healthy)
        yield _counter("queen_file_buffer_drained", "Messages that left the disk buffer.", stats.drained)
        modes = [("push", broker.watch.modes.push), ("pop", broker.watch.modes.pop)]
        yield _by("mode", "queen_maintenance_mode_enabled", "Maintenance modes.", modes)

    def _microbatches(self, counted: Sequence[Counted]) -> Iterator[str]:
        verbs = list(self._broker.engine.batch_sizes)
        for name, text in (("calls", "Database calls that requests shared."), ("requests", "Requests in them.")):
            sums = [({"verb": verb}, sum(one.sums[f"{name} {verb}"] for one in counted)) for verb in verbs]
            yield family("counter", f"queen_microbatch_{name}", text, sums)
        largest = [(verb, max(one.largest[verb] for one in counted)) for verb in verbs]
        yield _by("verb", "queen_microbatch_largest", "Most requests in one of them.", largest)

    def _queue_families(self, queues: Sequence[QueueFigures], living: Sequence[Counted]) -> Iterator[str]:
        for name, (text, field) in _PER_QUEUE.items():
            yield _by("queue", name, text, [(queue.name, getattr(queue, field)) for queue in queues])
        yield family(
            "gauge",
            "queen_queue_pop_lag_milliseconds",
            "Age of the oldest waiting.",
            [({"queue": queue.name, "stat": "max"}, queue.lag_ms) for queue in queues],
        )
        used = [(queue.name, queue.leased / (queue.partitions or 1)) for queue in queues]
        yield _by("queue", "queen_lease_utilisation", "Share of the partitions under a lease.", used)
        yield _by("queue", "queen_queue_parked_consumers", "Pops that wait here.", self._parked(queues, living))
        apart = sum(queue.queues for queue in queues if queue.name == OTHER)
        yield _gauge("queen_queues", "Queues.", sum(queue.queues for queue in queues))
        yield _gauge("queen_queues_without_label", "Queues whose numbers are in those of `other`.", apart)

    def _parked(self, queues: Sequence[QueueFigures], living: Sequence[Counted]) -> list[tuple[str, int]]:
        """By queue; those that do not exist yet have names of their own while there is room."""
        waiting: Counter[str] = Counter()
        for one in living:
            waiting.update(one.parked)
        named = {queue.name for queue in queues}
        if OTHER not in named:
            named.update(sorted(waiting.keys() - named)[: max(self._named - len(named), 0)])
        found: Counter[str] = Counter()
        for queue, count in waiting.items():
            found[queue if queue in named else OTHER] += count
        return sorted(found.items())

    def _totals(self, figures: Figures) -> Iterator[str]:
        dead = sum(queue.dead_letters for queue in figures.queues)
        yield _gauge("queen_dlq_depth", "Dead letters that were not pushed again.", dead)
        for verb, field in (("push", "pushed"), ("pop", "popped"), ("ack", "acked"), ("failed", "failed")):
            total = [({"scope": "cluster"}, figures.totals[field])]
            yield family("counter", f"queen_cluster_{verb}_messages", "Of all brokers.", total)

    def _services(self, services: Sequence[ServiceFigures]) -> Iterator[str]:
        now = time.time()
        ages = [(one.service, float("nan") if one.succeeded_at is None else now - one.succeeded_at) for one in services]
        yield _by("service", "queen_service_age_seconds", "Since a service last succeeded.", ages)
        failing = [(one.service, one.failing) for one in services]
        yield _by("service", "queen_service_failing", "Whether its last run failed.", failing)
        late = [(one.service, one.late) for one in services]
        yield _by("service", "queen_service_late", "Whether it has not succeeded for three intervals.", late)

    def summary(self) -> dict[str, Any]:
        """The numbers of the old JSON form."""
        counted = self.counted()
        living = [one for one in counted if one.lives]

        def level(name: str) -> int:
            return int(sum(one.levels[name] for one in living))

        def total(name: str) -> int:
            return int(sum(one.sums[name] for one in counted))

        return {
            "memory": {
                "rss": level("queen_process_resident_memory_bytes"),
                "virtual": level("queen_process_virtual_memory_bytes"),
            },
            "cpu": {"user": total("queen_cpu_user_microseconds"), "system": total("queen_cpu_system_microseconds")},
            "database": {
                "poolSize": level("queen_db_pool_size"),
                "idleConnections": level("queen_db_pool_idle"),
                "waitingRequests": sum(sum(one.parked.values()) for one in living),
            },
        }


def _fields(row: Row) -> dict[str, Any]:
    return dict(row.items())


def _gauge(name: str, text: str, value: float) -> str:
    return family("gauge", name, text, [({}, value)])


def _counter(name: str, text: str, value: float) -> str:
    return family("counter", name, text, [({}, value)])


def _by(label: str, name: str, text: str, values: Iterable[tuple[str, float]]) -> str:
    return family("gauge", name, text, [({label: key}, value) for key, value in values])
