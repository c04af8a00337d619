"""Popping ahead: a crowd of consumers that take one message at a time is served from runs.

While a message of a partition is being worked on nobody else may have the next one (I1), so the messages behind it can
be popped with it at no one's cost. A run is such a piece of one partition under one lease. Its messages are handed out
one after the other, each when the one before was acknowledged, to whoever of this process asks next: a pop is then no
database call. What was not handed out within a moment goes back. There are runs only where they pay:
for crowds that acknowledge quickly, and while there is a partition for everyone who asks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec

from queen.db.pool import Database
from queen.engine.wake import Wake
from queen.errors import QueenError
from queen.model import Ack, Acked, Message
from queen.sql import query

# So many at once are a crowd.
CROWD: Final = 16
# No message is given later than this after its pop, so that it has its lease nearly to itself and other partitions
# get their turn.
HOLD: Final = 0.25
# Of a shorter lease that moment would be too large a part.
SHORTEST_LEASE: Final = 20 * HOLD
LONGEST: Final = 32
# What a run, and all runs of a crowd, may take of memory.
RUN_BYTES: Final = 1 << 18
CROWD_BYTES: Final = 1 << 24
# A run is as long as fits into this part of a moment at the pace of the last one.
_AIM: Final = 0.8
_GROWTH: Final = 8
_CUT_SECONDS: Final = 5.0


def fitting(finished: int, seconds: float, size: int, most: int) -> int:
    """How many messages of a size to pop at once, after so many were finished in so many seconds."""
    pace = max(seconds / finished, 1e-6)
    return max(min(finished * _GROWTH, int(HOLD * _AIM / pace), RUN_BYTES // max(size, 1), most), 1)


@dataclass(slots=True, eq=False)
class Run:
    """Messages of one partition under one lease, handed out one after the other."""

    crowd: Crowd
    lease: UUID
    at: Message
    rest: list[Message]  # the next one last
    count: int
    popped_at: float
    until: float
    at_hand: bool = True

    def fresh(self, now: float) -> bool:
        """Whether its messages may still be handed out."""
        return now < self.popped_at + HOLD

    def give(self) -> list[Message]:
        """The next message."""
        self.at = self.rest.pop()
        self.at_hand = True
        return [self.at]


class Runs:
    """The runs of an engine, by their lease: told of every acknowledgement, they go on or end."""

    def __init__(self, database: Database, wake: Wake) -> None:
        self._database = database
        self._wake = wake
        self._runs: dict[UUID, Run] = {}  # the oldest first
        self._alarm: asyncio.TimerHandle | None = None
        self._late: dict[UUID, Run] = {}  # those whose rest goes back
        self._cut: set[UUID] = set()  # those whose rest went back a moment ago: an acknowledgement may be under way
        self._returning: asyncio.Task[None] | None = None

    def begin(self, run: Run) -> None:
        """Watch over a run from now on."""
        self._runs[run.lease] = run
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_at(run.popped_at + HOLD, self._ring)

    def acked(self, lease: UUID, seq: int | None, transaction_id: str | None = None, *, ended: bool) -> bool:
        """A message was acknowledged under a lease; tells whether whoever had that message has nothing more.

        Without its seq it is known by its transaction id.
        """
        run = self._runs.get(lease)
        if run is None:
            return ended or lease in self._late or lease in self._cut
        if ended:
            run.crowd.finished(run)
            self._end(run)
            return True
        if not run.at_hand or (transaction_id != run.at.transaction_id if seq is None else seq < run.at.seq):
            return False
        run.at_hand = False
        run.crowd.go_on(run)
        return True

    def settle(self, ack: Ack, acked: Acked) -> Acked:
        """What became of a message, as whoever had it sees it."""
        if ack.lease_id is None or acked.verdict != "acked":
            return acked
        over = self.acked(ack.lease_id, ack.seq, ack.transaction_id, ended=acked.released)
        return msgspec.structs.replace(acked, released=over)

    def forget(self, leases: Iterable[UUID]) -> None:
        """These leases are gone: nothing more is handed out under them."""
        for lease in leases:
            run = self._runs.get(lease)
            if run is not None:
                self._end(run)

    async def recall(self) -> None:
        """Give back at once whatever was not handed out."""
        self._late |= {run.lease: run for run in list(self._runs.values()) if self._end(run)}
        with suppress(QueenError):
            await self._give_back()
        self._late.clear()
        if self._returning is not None:
            await asyncio.wait([self._returning])

    def _end(self, run: Run) -> bool:
        """Hand out nothing more of a run; tells whether there was more."""
        del self._runs[run.lease]
        more = bool(run.rest)
        run.rest.clear()
        run.crowd.left()
        return more

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        self._alarm = None
        for run in list(self._runs.values()):
            if run.fresh(loop.time()):
                self._alarm = loop.call_at(run.popped_at + HOLD, self._ring)
                break
            run.crowd.finished(run)
            if self._end(run):
                self._late[run.lease] = run
        if self._late and self._returning is None:
            self._returning = asyncio.create_task(self._return(), name="queen-give-back")

    async def _return(self) -> None:
        """Until it worked: a lease that is not cut short would hide what lies behind it for all its time."""
        try:
            while self._late:
                with suppress(QueenError):
                    await self._give_back()
                if self._late:
                    await asyncio.sleep(HOLD)
                now = asyncio.get_running_loop().time()
                self._late = {lease: run for lease, run in self._late.items() if run.until > now}
        finally:
            self._returning = None

    async def _give_back(self) -> None:
        """Let leases end at the last message handed out; those whose rows someone else holds stay for the next time."""
        late = list(self._late.values())
        if not late:
            return
        rows = await self._database.fetch(
            query("engine/release_rest"),
            [run.at.partition_id for run in late],
            [run.at.group for run in late],
            [run.lease for run in late],
            [run.at.seq for run in late],
        )
        cut = [late[row["entry"] - 1].lease for row in rows if row["status"] != "busy"]
        for lease in cut:
            self._late.pop(lease, None)
        self._cut.update(cut)
        asyncio.get_running_loop().call_later(_CUT_SECONDS, self._cut.difference_update, cut)
        for queue_id in {row["queue_id"] for row in rows if row["status"] == "released"}:
            self._wake.ready(None, queue_id)


class Crowd:
    """Those who ask at one desk for single messages: how long their runs are, and which have a message for them."""

    def __init__(self, runs: Runs, serve: Callable[[Run], bool], leave: Callable[[], None]) -> None:
        self._runs = runs
        self._serve = serve
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Run] = deque()
        self._length = 1
        self._bytes = 0
        self._enough = True
        self._lease = 0.0
        self._until = 0.0
        self.size = 0
        """How many have a message that they were given lately."""

    def gathers(self, asking: int) -> bool:
        """Whether those who ask and those who have something are a crowd."""
        return self.size + asking >= CROWD

    def length(self, asking: int) -> int:
        """How many messages to pop for each: one where partitions are scarce, others may wait for them as well."""
        if not self._enough or self._lease < SHORTEST_LEASE:
            return 1
        return max(min(self._length, CROWD_BYTES // (max(self._bytes, 1) * (self.size + asking))), 1)

    def served(self, *, everyone: bool, lease: float) -> None:
        """A database call had something for everyone, or not, under leases of so many seconds."""
        self._enough = everyone
        self._lease = lease

    def begin(self, lease: UUID, messages: list[Message]) -> list[Message]:
        """The first of these messages; the others are its run."""
        first, *rest = messages
        if rest and (first.retry_count or first.delivery_count):  # what befell the first alone
            rest = [msgspec.structs.replace(message, retry_count=0, delivery_count=0) for message in rest]
        now = self._loop.time()
        self.size += 1
        self._runs.begin(Run(self, lease, first, rest[::-1], len(messages), now, now + self._lease))
        return [first]

    def take(self) -> list[Message]:
        """The next message of a run, if one has any."""
        while self._ready:
            run = self._ready.popleft()
            if run.rest and run.fresh(self._loop.time()):
                return run.give()
        return []

    def go_on(self, run: Run) -> None:
        """A run's message was acknowledged: the next one can be handed out."""
        if run.rest and run.fresh(self._loop.time()) and not self._serve(run):
            self._ready.append(run)

    def finished(self, run: Run) -> None:
        """A run is over: the next ones are as long as it lets expect."""
        self._bytes = len(run.at.payload)
        handed = run.count - len(run.rest)
        self._length = fitting(handed, self._loop.time() - run.popped_at, self._bytes, LONGEST)

    @property
    def gone(self) -> bool:
        """Whether nobody has had anything for a moment, so that what was learnt is out of date."""
        return self.size == 0 and self._loop.time() >= self._until

    def left(self) -> None:
        """A run is gone."""
        self.size -= 1
        if self.size == 0:
            self._until = self._loop.time() + HOLD
            self._loop.call_at(self._until, self._leave)
