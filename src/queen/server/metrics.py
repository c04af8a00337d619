"""What this process counts as it works: latencies, batch sizes, refusals, and how long messages wait per queue.

With several workers each writes what it counted to a file of a directory they share, once a second, and whoever is
asked adds the others' to its own. Names of queues become labels for the first `QUEUES` queues only.
"""

from __future__ import annotations

import os
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import msgspec
from msgspec import Struct

from queen.model import Acked, Message
from queen.server.exposition import Distribution, Histogram, family

Verb = Literal["push", "pop", "ack"]
VERBS: Final[tuple[Verb, ...]] = ("push", "pop", "ack")
QUEUES: Final = 200
LEASES: Final = 100_000
OTHER: Final = "other"
SHARED: Final = "QUEEN_METRICS_DIR"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 10_000)
_AGES: Final = (0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 86_400.0)


class Counted(Struct):
    """All a process has counted: its refusals by status, its histograms by name and label."""

    refused: dict[str, int]
    histograms: dict[str, dict[str, Distribution]]


class Held(msgspec.Struct, frozen=True):
    """Work under a lease: of which queue, and since when (monotonic)."""

    lease: UUID
    queue: str
    since: float


class Metrics:
    """The counters and histograms of one process."""

    def __init__(self) -> None:
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
        directory = os.environ.get(SHARED)
        self._directory = Path(directory) if directory else None

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
            if len(self._queues) >= QUEUES:
                return OTHER
            label = self._queues[queue] = queue
        return label

    def totals(self) -> dict[Verb, tuple[int, int]]:
        """Requests and messages so far, by verb."""
        nothing = Distribution([])
        found = {verb: self._sizes.by_label.get(verb, nothing) for verb in VERBS}
        return {verb: (sizes.count, int(sizes.sum)) for verb, sizes in found.items()}

    def publish(self) -> None:
        """Let the other workers know what was counted so far."""
        if self._directory is None:
            return
        counted = Counted(dict(self._refused), {one.name: one.by_label for one in self._histograms})
        fresh = self._directory / f"{os.getpid()}.new"
        with suppress(FileNotFoundError):  # the supervisor has ended and taken the directory along
            fresh.write_bytes(msgspec.json.encode(counted))
            fresh.replace(fresh.with_suffix(".json"))

    def exposition(self) -> bytes:
        """The histograms and counters as text, of all workers when there are several."""
        others = self._of_others()
        refused = sum((Counter(other.refused) for other in others), self._refused)
        samples = [({"status": status}, count) for status, count in refused.items()]
        parts = [family("counter", "queen_refused", "Requests refused or failed.", samples)]
        parts += [one.expose([other.histograms.get(one.name, {}) for other in others]) for one in self._histograms]
        return "".join(parts).encode()

    def _of_others(self) -> list[Counted]:
        """What the others counted, those that ended too: a sum must never fall."""
        if self._directory is None:
            return []
        own = f"{os.getpid()}.json"
        files = [path for path in self._directory.glob("*.json") if path.name != own]
        return [msgspec.json.decode(path.read_bytes(), type=Counted) for path in files]
