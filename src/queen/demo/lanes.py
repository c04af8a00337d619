"""One lane at a time: how a group works through the messages of a partition, batch after batch."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from queen.demo.flow import Sent
from queen.demo.shop import ATTEMPTS, QUEUE_OPTIONS, SECOND, Defect

POLL: Final = 0.02
SPREAD: Final = 0.5
RETRY_DELAY: Final = QUEUE_OPTIONS["retry_delay"] * 1000


@dataclass(frozen=True, slots=True)
class Delivery:
    """One batch that was handed out."""

    queue: str
    partition: str
    group: str
    first: int
    last: int
    leased: int
    ended: int
    retries: int
    failed: int
    outcome: str


@dataclass(slots=True)
class Lane:
    """A partition as a group sees it in the end."""

    cursor: int = 0
    consumed: int = 0
    batches: int = 0
    delivered: int = 0
    failed: int = 0
    consumed_at: int = 0
    deliveries: list[Delivery] = field(default_factory=list)
    dead: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Seq, error, retries and moment of each message it gave up on."""


class Worker:
    """Works through one lane; never holds two batches at a time."""

    def __init__(self, chance: random.Random, queue: str, group: str, work: float) -> None:
        self._chance = chance
        self._queue = queue
        self._group = group
        self._work = math.log(work * SECOND)
        self._free = 0
        self.lane = Lane()

    def start(self, waiting_since: int) -> int:
        """When the next batch is handed out."""
        return max(self._free, waiting_since) + int(self._chance.expovariate(1 / POLL) * SECOND) + 1

    def effort(self) -> int:
        """How long one message takes."""
        return int(self._chance.lognormvariate(self._work, SPREAD)) + 1

    def deliver(self, batch: Sequence[Sent], leased: int, ended: int, outcome: str, retries: int, failed: int) -> None:
        """A batch ends."""
        lane = self.lane
        first, last = batch[0].seq, batch[-1].seq
        partition = batch[0].partition
        lane.deliveries.append(
            Delivery(self._queue, partition, self._group, first, last, leased, ended, retries, failed, outcome)
        )
        lane.delivered += len(batch)
        lane.failed += failed
        self._free = ended

    def pass_by(self, batch: Sequence[Sent], moment: int, consumed: int) -> None:
        """The cursor moves past a batch."""
        self.lane.cursor = batch[-1].seq
        self.lane.consumed += consumed
        self.lane.batches += 1
        self.lane.consumed_at = moment

    def complete(self, batch: Sequence[Sent], leased: int, retries: int = 0, *, looking_on: bool = False) -> None:
        """A batch is done, one message after the other."""
        moment = leased
        for sent in batch:
            moment += self.effort()
            if not looking_on:
                sent.handled = moment
        moment += 500
        self.deliver(batch, leased, moment, "completed", retries, 0)
        self.pass_by(batch, moment, len(batch))
        if not looking_on:
            for sent in batch:
                sent.finished = moment

    def fail(self, sent: Sent, attempts: int, effort: int = 0) -> None:
        """A message fails some times, with a pause after each."""
        since = sent.created
        for attempt in range(attempts):
            leased = self.start(since)
            ended = leased + (effort or self.effort())
            self.deliver([sent], leased, ended, "failed", attempt, 1)
            since = ended + RETRY_DELAY

    def give_up(self, sent: Sent, defect: Defect) -> None:
        """A message becomes a dead letter: at once, or when all attempts are spent."""
        retries = 0 if defect.rejected else ATTEMPTS - 1
        if not defect.rejected:
            self.fail(sent, retries)
            self._free += RETRY_DELAY
        leased = self.start(sent.created)
        ended = leased + self.effort()
        self.deliver([sent], leased, ended, "partial" if defect.rejected else "failed", retries, 1)
        self.pass_by([sent], ended, 0)
        sent.error = defect.text(self._chance, str(sent.payload["order"]))
        sent.finished = ended
        self.lane.dead.append((sent.seq, sent.error, retries, ended))

    def stumble(self, sent: Sent) -> None:
        """A message fails, and succeeds when it is tried again; or only just before the last attempt."""
        attempts = ATTEMPTS - 1 if sent.slow else 1
        self.fail(sent, attempts, sent.slow // attempts)
        self._free += RETRY_DELAY
        self.complete([sent], self.start(sent.created), attempts)


def work_through(
    chance: random.Random,
    queue: str,
    group: str,
    messages: Sequence[Sent],
    batch: int,
    work: float,
    *,
    looking_on: bool = False,
) -> Lane:
    """A group works through the messages of a partition, which are in order of time."""
    worker = Worker(chance, queue, group, work)
    place = 0
    while place < len(messages):
        sent = messages[place]
        if not looking_on and (sent.defect or sent.stumbles or sent.slow):
            if sent.defect is not None:
                worker.give_up(sent, sent.defect)
            else:
                worker.stumble(sent)
            place += 1
            continue
        leased = worker.start(sent.created)
        taken = place + 1
        while taken < len(messages) and taken - place < batch and messages[taken].created <= leased:
            if not looking_on and (messages[taken].defect or messages[taken].stumbles or messages[taken].slow):
                break
            taken += 1
        worker.complete(messages[place:taken], leased, looking_on=looking_on)
        place = taken
    return worker.lane
