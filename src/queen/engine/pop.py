"""pop: hand out messages in order, and let those who ask wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from queen import errors
from queen.db.pool import Database, OutcomeUnknown, Row
from queen.engine.ahead import Runs
from queen.engine.encryption import KeyRing
from queen.engine.waiting import Desk, Offer, Parked
from queen.engine.wake import Wake
from queen.ids import uuid7s
from queen.model import MAX_NAME, QUEUE_MODE, Message, PopRequest
from queen.sql import query

MARK_LIFETIME: Final = 1.0
_LOOK_AGAIN: Final = 8
# Work that committed this much later than its time is still found at once.
_MARGIN: Final = timedelta(milliseconds=100)


def validate(request: PopRequest) -> None:
    """Raise InvalidRequest for a place pop cannot take from; requests at one desk have this in common."""
    if len(request.queue.encode()) > MAX_NAME or "\0" in request.queue:
        raise errors.InvalidRequest("queue", f"queue must be a name of at most {MAX_NAME} bytes without NUL")
    if not request.group or len(request.group.encode()) > MAX_NAME or "\0" in request.group:
        raise errors.InvalidRequest("consumer_group", f"consumerGroup must be a name of 1 to {MAX_NAME} bytes")
    if request.partition is not None and "\0" in request.partition:
        raise errors.InvalidRequest("partition", "partition must not contain NUL")
    if request.lease_seconds is not None and not 1 <= request.lease_seconds <= 86_400:
        raise errors.InvalidRequest("lease_seconds", "leaseSeconds must be between 1 and 86400")


def validate_size(request: PopRequest, batch_limit: int) -> None:
    """Raise InvalidRequest for more, or a longer wait, than pop gives."""
    if not 1 <= request.batch <= batch_limit:
        raise errors.InvalidRequest("batch", f"batch must be between 1 and {batch_limit}")
    if not 1 <= request.partitions <= batch_limit:
        raise errors.InvalidRequest("partitions", f"partitions must be between 1 and {batch_limit}")
    if not 0 <= request.wait <= 300:
        raise errors.InvalidRequest("timeout", "timeout must be between 0 and 300 seconds")


class Key(NamedTuple):
    """Requests with the same key share database calls."""

    queue: str
    group: str
    partition: str | None
    lease_seconds: int | None
    auto_ack: bool
    mode: str
    start_at: datetime | None


class Popper:
    """Hands out messages for an engine."""

    def __init__(
        self,
        database: Database,
        keys: KeyRing,
        wake: Wake,
        acking: Callable[[], bool],
        runs: Runs,
        *,
        poll: float = 1.0,
        batch_limit: int = 10_000,
    ) -> None:
        self._database = database
        self._keys = keys
        self._acking = acking
        self._runs = runs
        self._poll = poll
        self._batch_limit = batch_limit
        self._desks: dict[Key, Desk] = {}
        self._marks: dict[tuple[str, str], tuple[datetime | None, float]] = {}
        self._handing_out = True
        wake.subscribe(self._woken)

    @property
    def parked(self) -> dict[str, int]:
        """How many pops wait, by queue."""
        counts: dict[str, int] = {}
        for key, desk in self._desks.items():
            counts[key.queue] = counts.get(key.queue, 0) + desk.parked
        return counts

    async def pop(self, request: PopRequest) -> list[Message]:
        """Messages for one request; empty when there are none within its wait."""
        validate_size(request, self._batch_limit)
        key = Key(
            request.queue,
            request.group,
            request.partition,
            request.lease_seconds,
            request.auto_ack,
            request.mode,
            request.start_at,
        )
        desk = self._desks.get(key)
        if desk is None:
            validate(request)
        if not self._handing_out:
            await asyncio.sleep(0)  # whoever asks again and again must not keep the loop from what is left to do
            return []
        if desk is None:
            desk = self._desks[key] = Desk(
                lambda parked, ahead: self._offer(key, parked, ahead),
                self._give_back,
                lambda: self._retire(key),
                self._acking,
                self._runs,
                self._poll,
            )
        return await desk.ask(request)

    async def pop_matching(self, namespace: str | None, task: str | None, request: PopRequest) -> list[Message]:
        """Like pop, from the first queue of a namespace and/or task that has something, by priority."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait
        pause = 0.05
        while True:
            rows = await self._database.fetch(query("engine/matching_queues"), namespace, task)
            for row in rows:
                found = await self.pop(msgspec.structs.replace(request, queue=row["name"], wait=0.0))
                if found:
                    return found
            left = deadline - loop.time()
            if left <= 0 or not self._handing_out:
                return []
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, self._poll)

    def _retire(self, key: Key) -> None:
        desk = self._desks.get(key)
        if desk is not None and not desk.parked:
            del self._desks[key]

    def stop(self) -> None:
        """Hand out nothing more; whoever waits is answered empty at once."""
        self._handing_out = False
        for desk in self._desks.values():
            desk.dismiss()

    def _woken(self, queue: str | None, queue_id: int | None) -> None:
        for key, desk in self._desks.items():
            if queue_id is None or key.queue == queue or (queue is None and desk.queue_id in (None, queue_id)):
                desk.wake()

    async def _offer(self, key: Key, parked: Sequence[Parked], ahead: int) -> Offer:
        rows = await self._ask(key, parked, ahead)
        for _ in range(_LOOK_AGAIN):
            state = rows[0]["state"]
            if state == "unregistered" or (state == "absent" and key.group != QUEUE_MODE):
                await self.register(key.queue, key.group, key.mode, key.start_at)
            elif state != "again" or len(rows) > 1:
                break
            rows = await self._ask(key, parked, ahead)
        return self._read(key, parked, rows)

    async def _ask(self, key: Key, parked: Sequence[Parked], ahead: int) -> list[Row]:
        leases = uuid7s(len(parked))
        for waiting, lease in zip(parked, leases, strict=True):
            waiting.lease = lease
        try:
            return await self._database.fetch(
                query("engine/pop"),
                key.queue,
                key.group,
                [ahead if waiting.request.batch == 1 else waiting.request.batch for waiting in parked],
                [min(waiting.request.partitions, waiting.request.batch) for waiting in parked],
                leases,
                key.partition,
                key.lease_seconds,
                key.auto_ack,
                self._mark(key),
            )
        except OutcomeUnknown:
            # Perhaps the leases were given: nobody will work on them, so they go back.
            if not key.auto_ack:
                await self._database.fetch(query("engine/release"), leases, 0)
            raise

    def _mark(self, key: Key) -> datetime | None:
        mark, until = self._marks.get((key.queue, key.group), (None, 0.0))
        return mark if asyncio.get_running_loop().time() < until else None

    def _read(self, key: Key, parked: Sequence[Parked], rows: list[Row]) -> Offer:
        head = rows[0]
        self._remember(key, head)
        found: list[list[Message]] = [[] for _ in parked]
        for row in rows[1:]:
            place = row["request"] - 1
            found[place] += self._messages(key, row, None if key.auto_ack else parked[place].lease)
        wait, lease = None, 0.0
        if head["lease_expires_at"] is not None:
            lease = (head["lease_expires_at"] - head["started_at"]).total_seconds()
        if head["next_ready_at"] is not None:
            wait = max((head["next_ready_at"] - head["started_at"]).total_seconds(), 0.001)
        return Offer(found, wait, lease, again=head["state"] == "again", queue_id=head["partition_id"])

    def _remember(self, key: Key, head: Row) -> None:
        """Keep the low mark for a second: a late commit may be below it, so we look from the bottom that often."""
        now = asyncio.get_running_loop().time()
        _, until = self._marks.get((key.queue, key.group), (None, 0.0))
        if head["mark"] is None:
            self._marks.pop((key.queue, key.group), None)
        else:
            mark = head["mark"] - _MARGIN
            self._marks[key.queue, key.group] = (mark, until if now < until else now + MARK_LIFETIME)

    def _messages(self, key: Key, row: Row, lease: UUID | None) -> list[Message]:
        """The messages of one lane."""
        ids, payloads = row["message_ids"], row["payloads"]
        count = len(ids)
        broken: list[str | None] = [None] * count
        if row["encrypted"] is not None:
            payloads, broken = self._opened(payloads, row["encrypted"])
        names = row["transaction_ids"] or [None] * count
        # Positional for speed: this line runs once per message of every pop.
        return [
            Message(*fields)
            for fields in zip(
                repeat(key.queue),
                repeat(row["partition_name"]),
                repeat(row["partition_id"]),
                repeat(key.group),
                row["seqs"] or range(row["first_seq"], row["first_seq"] + count),
                ids,
                [name or str(found) for name, found in zip(names, ids, strict=True)],
                payloads,
                row["created_ats"],
                row["trace_ids"] or repeat(None),
                row["parent_ids"] or repeat(None),
                row["producer_subs"] or repeat(None),
                repeat(row["retry_count"]),
                repeat(row["delivery_count"]),
                repeat(lease),
                repeat(None if lease is None else row["lease_expires_at"]),
                broken,
                strict=False,
            )
        ]

    def _opened(self, payloads: list[str], sealed: list[bool]) -> tuple[list[str], list[str | None]]:
        """Decrypted payloads, and for each the reason when it cannot be."""
        opened: list[str] = []
        broken: list[str | None] = []
        for payload, encrypted in zip(payloads, sealed, strict=True):
            text, reason = payload, None
            if encrypted:
                try:
                    text = self._keys.open(payload)
                except errors.EncryptionUnavailable as error:
                    reason = error.message
            opened.append(text)
            broken.append(reason)
        return opened, broken

    async def register(self, queue: str, group: str, mode: str = "all", start_at: datetime | None = None) -> None:
        """Make a group known to a queue: remember where it starts and give it its cursors, in chunks."""
        if group == QUEUE_MODE:
            mode, start_at = "all", None
        row = await self._database.fetchrow(query("engine/subscribe"), queue, group, mode, start_at)
        while row["more"]:
            row = await self._database.fetchrow(query("engine/fill_subscription"), queue, group)

    async def _give_back(self, waiting: Parked) -> None:
        if not waiting.request.auto_ack:
            await self._database.fetch(query("engine/release"), [waiting.lease], 0)

    async def drain(self) -> None:
        """Wait until nothing is under way, and give back what was popped ahead."""
        for desk in list(self._desks.values()):
            await desk.drain()
        await self._runs.recall()
