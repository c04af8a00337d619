"""Numbers that are read when somebody asks: the process, its pool, the queues and the services."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psutil

from queen.db.pool import Row
from queen.errors import QueenError
from queen.server.exposition import family
from queen.server.metrics import QUEUES
from queen.sql import query

if TYPE_CHECKING:
    from queen.server.broker import Broker

FRESH: Final = 10.0
_LIMIT: Final = 2.0
_PER_QUEUE: Final = {
    "queen_queue_pushed_per_minute": ("Messages pushed in the last full minute.", "pushed_per_minute"),
    "queen_queue_popped_per_minute": ("Messages popped in the last full minute.", "popped_per_minute"),
    "queen_queue_acked_per_minute": ("Messages acknowledged in the last full minute.", "acked_per_minute"),
    "queen_queue_depth": ("Messages the slowest group has to get, at the last count.", "depth"),
    "queen_queue_partitions": ("Partitions.", "partitions"),
    "queen_queue_leased_partitions": ("Partitions under a live lease, counted per group.", "leased"),
    "queen_dlq_depth_by_queue": ("Dead letters that were not pushed again.", "dead_letters"),
}


class Gauges:
    """Reads the database at most every few seconds, whoever asks how often."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: list[Row] = []
        self._services: list[Row] = []
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def exposition(self) -> bytes:
        """All of them as text for Prometheus."""
        await self.refresh()
        return "".join(self._families()).encode()

    async def refresh(self) -> None:
        """Read the database unless that was done just now; without it the last numbers stand."""
        async with self._reading:
            if time.monotonic() - self._read_at < FRESH or not self._broker.watch.up:
                return
            with suppress(QueenError, TimeoutError):
                async with asyncio.timeout(_LIMIT):
                    database = self._broker.engine.database
                    self._queues = await database.fetch(query("server/queue_gauges"), QUEUES)
                    self._services = await database.fetch(query("server/service_gauges"))
            self._read_at = time.monotonic()

    def _families(self) -> Iterator[str]:
        yield from self._process()
        yield from self._broker_state()
        yield from self._microbatches()
        yield from self._queue_families()
        ages = [(row["service"], float("nan") if row["age"] is None else row["age"]) for row in self._services]
        failing = [(row["service"], row["failing"]) for row in self._services]
        yield _by("service", "queen_service_age_seconds", "Since a service last succeeded.", ages)
        yield _by("service", "queen_service_failing", "Whether its last run failed.", failing)
        late = [(row["service"], row["late"]) for row in self._services]
        yield _by("service", "queen_service_late", "Whether it has not succeeded for three intervals.", late)

    def _process(self) -> Iterator[str]:
        process = psutil.Process()
        memory, times = process.memory_info(), process.cpu_times()
        yield _gauge("queen_uptime_seconds", "Since this process started.", time.time() - self._broker.started_at)
        yield _counter("queen_cpu_user_microseconds", "CPU time in user mode.", times.user * 1e6)
        yield _counter("queen_cpu_system_microseconds", "CPU time in system mode.", times.system * 1e6)
        yield _gauge("queen_process_resident_memory_bytes", "Resident memory.", memory.rss)
        yield _gauge("queen_process_virtual_memory_bytes", "Virtual memory.", memory.vms)

    def _broker_state(self) -> Iterator[str]:
        broker, database = self._broker, self._broker.engine.database
        size, idle = database.sizes
        yield _gauge("queen_db_pool_size", "Database connections.", size)
        yield _gauge("queen_db_pool_idle", "Database connections without work.", idle)
        yield _gauge("queen_db_pool_active", "Database connections at work.", size - idle)
        yield _counter("queen_db_pool_waits", "Times a connection was asked for.", database.waits)
        yield _counter("queen_db_pool_wait_seconds", "Time spent waiting for one.", database.wait_seconds)
        yield _gauge("queen_db_up", "Whether the database answers.", broker.watch.up)
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

    def _microbatches(self) -> Iterator[str]:
        sizes = self._broker.engine.batch_sizes
        calls = [({"verb": verb}, sum(size.calls for size in each)) for verb, each in sizes.items()]
        requests = [({"verb": verb}, sum(size.requests for size in each)) for verb, each in sizes.items()]
        largest = [(verb, max((size.largest for size in each), default=0)) for verb, each in sizes.items()]
        yield family("counter", "queen_microbatch_calls", "Database calls that requests shared.", calls)
        yield family("counter", "queen_microbatch_requests", "Requests in them.", requests)
        yield _by("verb", "queen_microbatch_largest", "Most requests in one of them.", largest)

    def _queue_families(self) -> Iterator[str]:
        rows = self._queues
        for name, (text, column) in _PER_QUEUE.items():
            yield _by("queue", name, text, [(row["name"], row[column]) for row in rows])
        yield family(
            "gauge",
            "queen_queue_pop_lag_milliseconds",
            "Age of the oldest waiting.",
            [({"queue": row["name"], "stat": "max"}, row["lag_ms"]) for row in rows],
        )
        used = [(row["name"], row["leased"] / (row["partitions"] or 1)) for row in rows]
        yield _by("queue", "queen_lease_utilisation", "Share of the partitions under a lease.", used)
        parked = sorted(self._broker.engine.parked.items())[:QUEUES]
        yield _by("queue", "queen_queue_parked_consumers", "Pops that wait here.", parked)
        yield _gauge("queen_dlq_depth", "Dead letters that were not pushed again.", self._sum("dead_letters"))
        for verb, column in (("push", "pushed"), ("pop", "popped"), ("ack", "acked"), ("failed", "failed")):
            total = [({"scope": "cluster"}, self._sum(column))]
            yield family("counter", f"queen_cluster_{verb}_messages", "Of all brokers.", total)

    def _sum(self, column: str) -> int:
        return sum(row[column] for row in self._queues)

    def summary(self) -> Mapping[str, Any]:
        """The numbers of the old JSON form."""
        process = psutil.Process()
        memory, times = process.memory_info(), process.cpu_times()
        size, idle = self._broker.engine.database.sizes
        return {
            "memory": {"rss": memory.rss, "virtual": memory.vms},
            "cpu": {"user": int(times.user * 1e6), "system": int(times.system * 1e6)},
            "database": {
                "poolSize": size,
                "idleConnections": idle,
                "waitingRequests": sum(self._broker.engine.parked.values()),
            },
        }


def _gauge(name: str, text: str, value: float) -> str:
    return family("gauge", name, text, [({}, value)])


def _counter(name: str, text: str, value: float) -> str:
    return family("counter", name, text, [({}, value)])


def _by(label: str, name: str, text: str, values: Iterable[tuple[str, float]]) -> str:
    return family("gauge", name, text, [({label: key}, value) for key, value in values])
