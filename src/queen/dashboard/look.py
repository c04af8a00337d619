"""One look at everything, shared by all pages: no page counts what needs a pass over all partitions.

A look is taken when a page asks for one and the last is not fresh. One that took long stays fresh for longer, so that
at most a twentieth of one connection's time goes into looking, whoever watches and however many. A page does not wait
for a look that takes long, unless there is none yet or something was just changed: it shows the last one and its age.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection
    from queen.server.wire import Response

STUCK_AFTER: Final = 60.0
STUCK_SHOWN: Final = 200
ERRORS_READ: Final = 20_000
PACE_MINUTES: Final = 60
LIMIT: Final = "5s"
PAGE_LIMIT: Final = "2s"
_FRESH: Final = 0.5
_SHARE: Final = 20
_QUICK: Final = 0.05
_AFTER_ACT: Final = 3.0
OLD: Final = 60.0
PARKED_SHOWN: Final = 100
_SAMPLES: Final = 400
_CACHED: Final = 100


class QueueLook(Struct, frozen=True, kw_only=True):
    """A queue's numbers at one moment."""

    id: int
    name: str
    namespace: str
    task: str
    paused: bool
    max_queue_size: int
    partitions: int
    kept: int
    waiting: int
    processing: int
    behind: int
    pushed: int
    dead_letters: int
    dead_lately: int


class GroupLook(Struct, frozen=True, kw_only=True):
    """A group's numbers on one queue at one moment."""

    queue_id: int
    consumer_group: str
    mode: str
    start_at: datetime
    created_at: datetime
    used_at: datetime
    partitions: int
    waiting: int
    behind: int
    oldest_at: datetime | None
    failing: int
    leases: int
    consumed: int
    failed: int
    last_consumed_at: datetime | None


class StuckLook(Struct, frozen=True, kw_only=True):
    """A partition in which a message has kept a group waiting for long."""

    queue_id: int
    partition_id: int
    partition_name: str
    consumer_group: str
    waiting: int
    oldest_at: datetime
    ready_at: datetime | None
    retry_count: int
    lease_expires_at: datetime | None
    lease_acquired_at: datetime | None
    seq: int
    transaction_id: str


class ErrorLook(Struct, frozen=True, kw_only=True):
    """Dead letters whose errors differ only in ids, numbers and quoted parts."""

    error: str
    dead_letters: int
    lately: int
    first_failed_at: datetime
    last_failed_at: datetime
    queue_ids: list[int]
    consumer_groups: list[str]
    newest: int
    sample: str


class Minute(Struct, frozen=True, kw_only=True):
    """What happened to a queue in one minute, and what it had waiting at its end."""

    queue_id: int
    bucket: datetime
    pushed: int
    acked: int
    failed: int
    lag: int
    max_lag_ms: int


class Sample(Struct, frozen=True):
    """The running totals of all queues at one moment."""

    at: float
    pushed: int
    done: int
    waiting: int
    oldest: float
    failed: int


class ParkedLook(Struct, frozen=True, kw_only=True):
    """A workflow that waits for people."""

    instance: str
    name: str
    updated_at: int
    output: str | None


class Look(Struct, frozen=True, kw_only=True):
    """Everything at one moment; `problem` says why there is nothing newer."""

    began: float = 0.0
    at: float = 0.0
    cost: float = 0.0
    now: datetime | None = None
    queues: dict[int, QueueLook] = {}
    groups: list[GroupLook] = []
    stuck: list[StuckLook] = []
    errors: list[ErrorLook] = []
    pace: dict[int, list[Minute]] = {}
    late: list[dict[str, Any]] = []
    oldest_transaction: dict[str, Any] | None = None
    replicas: list[dict[str, Any]] = []
    parked: list[ParkedLook] = []
    newest_act: int = 0
    problem: str | None = None

    @property
    def age(self) -> float:
        """Seconds since it was taken."""
        return time.monotonic() - self.at

    def queue(self, name: str) -> QueueLook | None:
        """The queue of a name."""
        return next((queue for queue in self.queues.values() if queue.name == name), None)

    def groups_of(self, queue_id: int) -> list[GroupLook]:
        """The groups of a queue, the furthest behind first."""
        found = [group for group in self.groups if group.queue_id == queue_id]
        return sorted(found, key=lambda group: (-group.waiting, group.consumer_group))

    def oldest_at(self, queue_id: int) -> datetime | None:
        """Since when the oldest message of a queue waits for one of its groups."""
        return min((g.oldest_at for g in self.groups if g.queue_id == queue_id and g.oldest_at), default=None)


class Looker:
    """Takes looks, and runs the queries of pages within a time limit of their own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._look = Look()
        self._taking: asyncio.Task[None] | None = None
        self._changed = 0.0
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self.rendered: dict[tuple[bytes, ...], tuple[float, Response]] = {}
        self.watchers = 0
        self._cached: dict[tuple[Any, ...], tuple[float, list[Row]]] = {}

    async def latest(self) -> Look:
        """The look to show: a fresh one, unless taking it takes long and the last is not old."""
        deadline = time.monotonic() + _AFTER_ACT
        while True:
            look, behind = self._look, self._look.began < self._changed
            if look.now is not None and not behind and look.age < max(_FRESH, look.cost * _SHARE):
                return look
            taking = self._taking = self._taking or asyncio.create_task(self._take(), name="queen-look")
            if look.now is None:
                await asyncio.shield(taking)
            elif behind or look.cost < _QUICK:
                await asyncio.wait((taking,), timeout=max(deadline - time.monotonic(), 0.0))
            if self._look.began >= self._changed or self._look.problem is not None or time.monotonic() >= deadline:
                return self._look

    def outdate(self) -> None:
        """Something was changed: the next page wants to see it."""
        self._changed = time.monotonic()
        self.rendered.clear()
        self._cached.clear()

    async def stop(self) -> None:
        """Take no more looks."""
        task, self._taking = self._taking, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def fetch(self, name: str, *args: Any) -> list[Row]:
        """The rows of one of the dashboard's queries, in a read-only transaction with a time limit."""
        return (await self.fetch_all((name, *args)))[0]

    async def fetch_all(self, *calls: tuple[Any, ...], limit: str = PAGE_LIMIT) -> list[list[Row]]:
        """The rows of several of the dashboard's queries on one snapshot."""

        async def run(connection: Connection) -> list[list[Row]]:
            await connection.fetch(query("engine/limit"), limit, limit)
            return [await connection.fetch(query(f"dashboard/{name}"), *args) for name, *args in calls]

        return await self._database.transaction(run, "repeatable_read")

    async def cached(self, key: tuple[Any, ...], name: str, *args: Any) -> list[Row]:
        """The same, but what took long is not asked for again before it has paid off."""
        found = self._cached.get(key)
        if found is not None and time.monotonic() < found[0]:
            return found[1]
        began = time.monotonic()
        rows = (await self.fetch_all((name, *args), limit=LIMIT))[0]
        if len(self._cached) >= _CACHED:
            self._cached.clear()
        ended = time.monotonic()
        self._cached[key] = ended + max(_FRESH, (ended - began) * _SHARE), rows
        return rows

    async def _take(self) -> None:
        began = time.monotonic()
        try:
            queues, groups, stuck, found, pace, parked, health = await self.fetch_all(
                ("look_queues",),
                ("look_groups",),
                ("look_stuck", STUCK_AFTER, STUCK_SHOWN),
                ("look_errors", ERRORS_READ),
                ("look_pace", PACE_MINUTES),
                ("parked", PARKED_SHOWN),
                ("look_health",),
                limit=LIMIT,
            )
        except (errors.QueenError, OSError, TimeoutError) as error:
            problem = str(error) or "the database did not answer in time"
            self._look = msgspec.structs.replace(self._look, began=began, at=time.monotonic(), problem=problem)
            return
        finally:
            self._taking = None
        ended = time.monotonic()
        minutes: dict[int, list[Minute]] = {}
        for row in pace:
            minutes.setdefault(row["queue_id"], []).append(_read(Minute, row))
        self._look = Look(
            began=began,
            at=ended,
            cost=ended - began,
            now=datetime.now().astimezone(),
            queues={row["id"]: _read(QueueLook, row) for row in queues},
            groups=[_read(GroupLook, row) for row in groups],
            stuck=[_read(StuckLook, row) for row in stuck],
            errors=[_read(ErrorLook, row) for row in found],
            pace=minutes,
            late=msgspec.json.decode(health[0]["late"]),
            oldest_transaction=msgspec.json.decode(health[0]["oldest_transaction"] or "null"),
            replicas=msgspec.json.decode(health[0]["replicas"]),
            parked=[_read(ParkedLook, row) for row in parked],
            newest_act=health[0]["newest_act"] or 0,
        )
        self._sample()

    def _sample(self) -> None:
        look = self._look
        assert look.now is not None
        oldest = min((group.oldest_at for group in look.groups if group.oldest_at), default=None)
        self.samples.append(
            Sample(
                look.now.timestamp(),
                sum(queue.pushed for queue in look.queues.values()),
                sum(group.consumed for group in look.groups),
                sum(queue.waiting for queue in look.queues.values()),
                (look.now - oldest).total_seconds() if oldest else 0.0,
                sum(group.failed for group in look.groups),
            )
        )


def _read(kind: Any, row: Row) -> Any:
    return kind(**{name: row[name] for name in kind.__struct_fields__})
