"""What Prometheus may know. Hot paths only touch histograms of this process; the rest is read at a scrape.

With several workers `PROMETHEUS_MULTIPROC_DIR` is set: then the processes share their values through
files, and any of them answers for all.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from queen.model import Acked, Message

Verb = Literal["push", "pop", "ack"]
VERBS: Final[tuple[Verb, ...]] = ("push", "pop", "ack")
QUEUES: Final = 200
LEASES: Final = 100_000
OTHER: Final = "other"
SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 10_000)
_AGES: Final = (0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 86_400.0)


class Metrics:
    """The counters and histograms of one process."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._refused = Counter("queen_refused", "Requests refused or failed.", ["status"], registry=self.registry)
        seconds = Histogram(
            "queen_request_seconds",
            "Time to answer a push, a pop that found something, an ack.",
            ["verb"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        sizes = Histogram(
            "queen_request_messages", "Messages in one request.", ["verb"], buckets=_SIZES, registry=self.registry
        )
        self._parts = {verb: (seconds.labels(verb), sizes.labels(verb)) for verb in VERBS}
        self._wait = Histogram(
            "queen_push_to_pop_seconds", "From push to pop.", ["queue"], buckets=_AGES, registry=self.registry
        )
        self._work = Histogram(
            "queen_pop_to_ack_seconds", "From pop to ack.", ["queue"], buckets=_AGES, registry=self.registry
        )
        self._queues: dict[str, tuple[Histogram, Histogram]] = {}
        self._leases: OrderedDict[UUID, tuple[Histogram, float]] = OrderedDict()

    def done(self, verb: Verb, messages: int, started: float) -> None:
        """A request that began at `started` (monotonic) was answered."""
        seconds, sizes = self._parts[verb]
        seconds.observe(time.monotonic() - started)
        sizes.observe(messages)

    def refused(self, status: int) -> None:
        """A request was answered with an error."""
        self._refused.labels(str(status)).inc()

    def handed_out(self, messages: Sequence[Message], now: datetime) -> None:
        """Messages went to a consumer: the first of a batch has waited longest and stands for it."""
        first = messages[0]
        wait, work = self._queue(first.queue)
        wait.observe(max((now - first.created_at).total_seconds(), 0.0))
        if first.lease_id is not None:
            self._leases[first.lease_id] = (work, time.monotonic())
            if len(self._leases) > LEASES:
                self._leases.popitem(last=False)

    def acknowledged(self, lease: UUID | None, acked: Acked) -> None:
        """A lease that this process handed out ended."""
        if lease is not None and acked.released and (known := self._leases.pop(lease, None)):
            known[0].observe(time.monotonic() - known[1])

    def _queue(self, name: str) -> tuple[Histogram, Histogram]:
        known = self._queues.get(name)
        if known is None:
            label = name if len(self._queues) < QUEUES else OTHER
            known = self._queues[name] = (self._wait.labels(label), self._work.labels(label))
            if len(self._queues) > 10 * QUEUES:
                self._queues.clear()
        return known

    def totals(self) -> dict[Verb, tuple[int, int]]:
        """Requests and messages so far, by verb."""
        return {
            verb: (
                int(self.registry.get_sample_value("queen_request_messages_count", {"verb": verb}) or 0),
                int(self.registry.get_sample_value("queen_request_messages_sum", {"verb": verb}) or 0),
            )
            for verb in VERBS
        }

    def exposition(self) -> bytes:
        """The histograms and counters as text, of all workers when there are several."""
        registry = self.registry
        if os.environ.get(SHARED):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
