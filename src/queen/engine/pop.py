"""pop: hand out messages in order, and let those who ask wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import repeat
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from queen import errors
from queen.db.pool import Database, OutcomeUnknown, Row
from queen.engine.batching import Coalescer
from queen.engine.encryption import KeyRing
from queen.engine.waiting import Offer, Waiter, Waiters
from queen.engine.wake import Wake
from queen.ids import uuid7s
from queen.model import MAX_NAME, QUEUE_MODE, Message, PopRequest
from queen.sql import query

MAX_BYTES: Final = 2**31 - 1
MARK_LIFETIME: Final = 1.0
_LOOK_AGAIN: Final = 8
_MATCH_PAUSE: Final = 0.05
# Work that committed this much later than its time is still found at once.
_MARGIN: Final = timedelta(milliseconds=100)


def validate(request: PopRequest) -> None:
    """Raise InvalidRequest for a place pop cannot take from; requests that share calls have this in common."""
    if len(request.queue.encode()) > MAX_NAME or "\0" in request.queue:
        raise errors.InvalidRequest("queue", f"queue must be a name of at most {MAX_NAME} bytes without NUL")
    if not request.group or len(request.group.encode()) > MAX_NAME or "\0" in request.group:
        raise errors.InvalidRequest("consumer_group", f"consumerGroup must be a name of 1 to {MAX_NAME} bytes")
    if request.partition is not None and "\0" in request.partition:
        raise errors.InvalidRequest("partition", "partition must not contain NUL")
    if request.lease_seconds is not None and not 1 <= request.lease_seconds <= 86_400:
        raise errors.InvalidRequest("lease_seconds", "leaseSeconds must be between 1 and 86400")
    if request.max_bytes is not None and not 1 <= request.max_bytes <= MAX_BYTES:
        raise errors.InvalidRequest("max_bytes", f"maxBytes must be between 1 and {MAX_BYTES}")


def validate_size(request: PopRequest, batch_limit: int) -> None:
    """Raise InvalidRequest for more, or a longer wait, than pop gives."""
    if request.prefetch and (request.auto_ack or request.partitions > 1):
        raise errors.InvalidRequest("prefetch", "prefetch needs a lease on one partition: no autoAck, partitions 1")
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
    prefetch: bool
    max_bytes: int | None


class Matching(NamedTuple):
    """What queues a pop across queues may take from."""

    namespace: str | None
    task: str | None
    group: str


class Popper:
    """Hands out messages for an engine."""

    def __init__(
        self,
        database: Database,
        keys: KeyRing,
        wake: Wake,
        acking: Callable[[], bool],
        *,
        poll: float = 1.0,
        batch_limit: int = 10_000,
    ) -> None:
        self._database = database
        self._keys = keys
        self._acking = acking
        self._poll = poll
        self._batch_limit = batch_limit
        self._waiters: dict[Key, Waiters] = {}
        self._marks: dict[tuple[str, str], tuple[datetime | None, float]] = {}
        self._matching: Coalescer[Matching, list[str]] = Coalescer(self._match)
        self._news = asyncio.Event()
        self.stopped = False
        """Whether nothing more is handed out."""
        wake.subscribe(self._woken)

    @property
    def parked(self) -> dict[str, int]:
        """How many pops wait, by queue."""
        counts: dict[str, int] = {}
        for key, waiters in self._waiters.items():
            counts[key.queue] = counts.get(key.queue, 0) + waiters.count
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
            request.prefetch,
            request.max_bytes,
        )
        waiters = self._waiters.get(key)
        if waiters is None:
            validate(request)
        if self.stopped:
            await asyncio.sleep(0)  # whoever asks again and again must not keep the loop from what is left to do
            return []
        if waiters is None:
            waiters = self._waiters[key] = Waiters(
                lambda batch: self._offer(key, batch),
                self._give_back,
                lambda: self._retire(key),
                self._acking,
                self._poll,
            )
        return await waiters.ask(request)

    async def pop_matching(self, namespace: str | None, task: str | None, request: PopRequest) -> list[Message]:
        """Like pop, from the first queue of a namespace and/or task that has something, by priority."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait
        while not self.stopped:
            news = self._news
            for name in await self._matching.submit(Matching(namespace, task, request.group)):
                if found := await self.pop(msgspec.structs.replace(request, queue=name, wait=0.0)):
                    return found
            left = deadline - loop.time()
            if left <= 0:
                break
            # Whatever becomes ready anywhere is news, so that a busy neighbour must not make this a loop without pause.
            await asyncio.sleep(min(_MATCH_PAUSE, left))
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), min(self._poll, max(deadline - loop.time(), 0.0)))
        return []

    async def _match(self, wanted: Sequence[Matching]) -> list[list[str]]:
        """The queues worth asking, for each; those who want the same share a look."""
        names = {
            one: [row["name"] for row in await self._database.fetch(query("engine/matching_queues"), *one)]
            for one in set(wanted)
        }
        return [names[one] for one in wanted]

    def _retire(self, key: Key) -> None:
        waiters = self._waiters.get(key)
        if waiters is not None and not waiters.count:
            del self._waiters[key]

    def stop(self) -> None:
        """Hand out nothing more; whoever waits is answered empty at once."""
        self.stopped = True
        self._news.set()
        for waiters in self._waiters.values():
            waiters.dismiss()

    def _woken(self, queue: str | None, queue_id: int | None) -> None:
        self._news.set()
        self._news = asyncio.Event()
        for key, waiters in self._waiters.items():
            if queue_id is None or key.queue == queue or (queue is None and waiters.queue_id in (None, queue_id)):
                waiters.wake()

    async def _offer(self, key: Key, batch: Sequence[Waiter]) -> Offer:
        mark = self._mark(key)
        rows = await self._ask(key, batch, mark)
        for _ in range(_LOOK_AGAIN):
            state = rows[0]["state"]
            if state == "unregistered" or (state == "absent" and key.group != QUEUE_MODE):
                await self.register(key.queue, key.group, key.mode, key.start_at)
            elif state != "again" or len(rows) > 1:
                break
            rows = await self._ask(key, batch, mark)
        self._remember(key, rows[0], whole=mark is None)
        return self._read(key, batch, rows)

    async def _ask(self, key: Key, batch: Sequence[Waiter], mark: datetime | None) -> list[Row]:
        leases = uuid7s(len(batch))
        for waiter, lease in zip(batch, leases, strict=True):
            waiter.lease = lease
        try:
            return await self._database.fetch(
                query("engine/pop"),
                key.queue,
                key.group,
                [waiter.request.batch for waiter in batch],
                [min(waiter.request.partitions, waiter.request.batch) for waiter in batch],
                leases,
                key.partition,
                key.lease_seconds,
                key.auto_ack,
                mark,
                key.prefetch,
                key.max_bytes,
            )
        except OutcomeUnknown:
            # Perhaps the leases were given: nobody will work on them, so they go back.
            if not key.auto_ack:
                await self._database.fetch(query("engine/release"), leases, 0)
            raise

    def _mark(self, key: Key) -> datetime | None:
        mark, until = self._marks.get((key.queue, key.group), (None, 0.0))
        return mark if asyncio.get_running_loop().time() < until else None

    def _read(self, key: Key, batch: Sequence[Waiter], rows: list[Row]) -> Offer:
        head = rows[0]
        found: list[list[Message]] = [[] for _ in batch]
        for row in rows[1:]:
            place = row["request"] - 1
            found[place] += self._messages(key, row, None if key.auto_ack else batch[place].lease)
        next_in = None
        if head["next_ready_at"] is not None:
            next_in = (head["next_ready_at"] - head["started_at"]).total_seconds()
        return Offer(found, next_in, again=head["state"] == "again", queue_id=head["partition_id"])

    def _remember(self, key: Key, head: Row, *, whole: bool) -> None:
        """Keep the low mark for a second after a look at the whole: a late commit may be below it."""
        _, until = self._marks.get((key.queue, key.group), (None, 0.0))
        if whole:
            until = asyncio.get_running_loop().time() + MARK_LIFETIME
        if head["mark"] is None:
            self._marks.pop((key.queue, key.group), None)
        else:
            self._marks[key.queue, key.group] = (head["mark"] - _MARGIN, until)

    def _messages(self, key: Key, row: Row, lease: UUID | None) -> list[Message]:
        """The messages of one partition."""
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
        """Decrypted payloads, and for each that cannot be the reason; its payload is null, never the envelope."""
        opened: list[str] = []
        broken: list[str | None] = []
        for payload, encrypted in zip(payloads, sealed, strict=True):
            text, reason = payload, None
            if encrypted:
                try:
                    text = self._keys.open(payload)
                except errors.EncryptionUnavailable as error:
                    text, reason = "null", error.message
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

    async def _give_back(self, waiter: Waiter) -> None:
        if not waiter.request.auto_ack:
            await self._database.fetch(query("engine/release"), [waiter.lease], 0)

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        for waiters in list(self._waiters.values()):
            await waiters.drain()
