"""What this process counts as it works: latencies, batch sizes, refusals, and how long messages wait per queue.

Names of queues become labels for the first queues it meets, up to a limit; the others share one.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import msgspec

from queen.model import Acked, Message
from queen.server.exposition import Distribution, Histogram, family, merged
from queen.server.shares import Counted

Verb = Literal["push", "pop", "ack"]
VERBS: Final[tuple[Verb, ...]] = ("push", "pop", "ack")
LEASES: Final = 100_000
OTHER: Final = "other"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 10_000)
_AGES: Final = (0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 86_400.0)


class Held(msgspec.Struct, frozen=True):
    """Work under a lease: of which queue, and since when (monotonic)."""

    lease: UUID
    queue: str
    since: float


class Metrics:
    """The counters and histograms of one process."""

    def __init__(self, queues: int = 200) -> None:
        self._limit = queues
        self._refused: Counter[str] = Counter()
        self._seconds = Histogram(
            "queen_request_seconds", "Time to answer a push, a pop that found something, an ack.", "verb", _SECONDS
        )
        self._sizes = Histogram("queen_request_messages", "Messages in one request.", "verb", _SIZES)
        self._wait = Histogram("queen_push_to_pop_seconds", "From push to pop.", "queue", _AGES)
        self._work = Histogram("queen_pop_to_ack_seconds", "From pop to ack.", "queue", _AGES)
        self._histograms = (self._seconds, self._sizes, self._wait, self._work)
        self._queues: dict[str, str] = {}
        self._leases: OrderedDict[UUID, Held] = OrderedDict()

    def done(self, verb: Verb, messages: int, started: float) -> None:
        """A request that began at `started` (monotonic) was answered."""
        self._seconds.observe(verb, time.monotonic() - started)
        self._sizes.observe(verb, messages)

    def refused(self, status: int) -> None:
        """A request was answered with an error."""
        self._refused[str(status)] += 1

    @property
    def unavailable(self) -> int:
        """Requests this process had to refuse for want of the database."""
        return self._refused["503"]

    def handed_out(self, messages: Sequence[Message], now: datetime) -> None:
        """Messages went to a consumer: the first of a batch has waited longest and stands for it."""
        first = messages[0]
        queue = self._label(first.queue)
        self._wait.observe(queue, max((now - first.created_at).total_seconds(), 0.0))
        if first.lease_id is not None:
            self._leases[first.lease_id] = Held(first.lease_id, queue, time.monotonic())
            if len(self._leases) > LEASES:
                self._leases.popitem(last=False)

    def held(self, lease: UUID | None) -> Held | None:
        """The work under a lease; to be asked before it is acknowledged, for then the lease may get new work."""
        return self._leases.get(lease) if lease is not None else None

    def acknowledged(self, held: Held | None, acked: Acked) -> None:
        """Work that this process handed out is finished."""
        if held is not None and acked.released:
            self._work.observe(held.queue, time.monotonic() - held.since)
            if self._leases.get(held.lease) is held:
                del self._leases[held.lease]

    def _label(self, queue: str) -> str:
        label = self._queues.get(queue)
        if label is None:
            if len(self._queues) >= self._limit or queue == OTHER:
                return OTHER
            label = self._queues[queue] = queue
        return label

    @property
    def refusals(self) -> dict[str, int]:
        """How many requests were refused, by status."""
        return dict(self._refused)

    @property
    def distributions(self) -> dict[str, dict[str, Distribution]]:
        """The histograms, by name and label."""
        return {one.name: one.by_label for one in self._histograms}

    def exposition(self, counted: Sequence[Counted]) -> str:
        """The histograms and counters of all workers as text."""
        refused = sum((Counter(one.refused) for one in counted), Counter[str]())
        samples = [({"status": status}, count) for status, count in refused.items()]
        parts = [family("counter", "queen_refused", "Requests refused or failed.", samples)]
        parts += [one.expose([each.histograms.get(one.name, {}) for each in counted]) for one in self._histograms]
        return "".join(parts)

    def totals(self, counted: Sequence[Counted]) -> dict[Verb, tuple[int, int]]:
        """Requests and messages so far, by verb, of all workers."""
        nothing = Distribution([])
        sizes = merged([each.histograms.get(self._sizes.name, {}) for each in counted])
        found = {verb: sizes.get(verb, nothing) for verb in VERBS}
        return {verb: (one.count, int(one.sum)) for verb, one in found.items()}
