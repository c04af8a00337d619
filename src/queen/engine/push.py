"""push: store messages in order, once."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import msgspec

from queen import errors
from queen.db.pool import Database, OutcomeUnknown, Row
from queen.engine.batching import BatchSizes, Coalescer
from queen.engine.encryption import KeyRing
from queen.engine.storable import require_storable
from queen.engine.wake import Wake
from queen.ids import made_here, may_be_made_here, uuid7s
from queen.model import MAX_NAME, MAX_TRANSACTION_ID, NewMessage, Pushed, PushStatus
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection

Woken = list[tuple[str, int]]

# Calls of up to this many messages share database calls; larger ones are a batch already.
SMALL: Final = 64
_BUSY_DELAYS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25)
# After so many busy answers a call waits in line for the lock, beside others' transactions that would always be first
# otherwise; for so many partitions at once, because each takes a connection.
_PATIENCE: Final = 4
_LINES: Final = 2
_ATTEMPTS: Final = 3
# So many partitions are known by name from one push to the next.
_NAMES: Final = 16_384


@lru_cache(_NAMES)
def _number(queue: str, partition: str) -> int:
    """The number of a partition, always the same; InvalidRequest for names PostgreSQL would refuse or cut."""
    if len(queue.encode()) > MAX_NAME or "\0" in queue:
        raise errors.InvalidRequest("queue", f"queue must be a name of at most {MAX_NAME} bytes without NUL")
    if len(partition.encode()) > MAX_NAME or "\0" in partition:
        raise errors.InvalidRequest("partition", f"partition must be a name of at most {MAX_NAME} bytes, no NUL")
    return zlib.crc32(f"{queue}\0{partition}".encode())


def validate(items: Sequence[NewMessage]) -> None:
    """Raise InvalidRequest for the first item PostgreSQL would refuse, cut, or swell when it is read."""
    for item in items:
        _number(item.queue, item.partition)
        transaction = item.transaction_id
        if transaction is not None and not (1 <= len(transaction) <= MAX_TRANSACTION_ID and "\0" not in transaction):
            raise errors.InvalidRequest(
                "transaction_id", f"transactionId must have 1 to {MAX_TRANSACTION_ID} characters and no NUL"
            )
        if "\\u0000" in item.payload and "\\u0000" in item.payload.replace("\\\\", ""):
            raise errors.InvalidRequest("payload", "payload must not contain \\u0000")
        if item.producer_sub is not None and "\0" in item.producer_sub:
            raise errors.InvalidRequest("producer_sub", "producerSub must not contain NUL")
        require_storable(item.payload)


class Pusher:
    """Stores messages for an engine."""

    def __init__(self, database: Database, keys: KeyRing, wake: Wake, *, lanes: int = 2) -> None:
        self._database = database
        self._keys = keys
        self._wake = wake
        self._encrypted: set[str] = set()
        # What the partitions were last time: saves looking for them, and is checked by the database.
        self._ids: dict[tuple[str, str], int] = {}
        self._limit = database.options.lock_timeout + database.options.statement_timeout
        self._delays = (*_BUSY_DELAYS, *[_BUSY_DELAYS[-1]] * int(database.options.lock_timeout * 4))
        self._lanes = [Coalescer(self._together, limit=1000) for _ in range(lanes)]
        # Creating a partition can wait for someone who is creating the same one, so it has a lane of its own.
        self._nursery = Coalescer(self._create_together, limit=200)
        self._lines: dict[tuple[str, str], Coalescer[list[NewMessage], list[Pushed]]] = {}

    @property
    def sizes(self) -> list[BatchSizes]:
        """How the micro-batches of each lane went."""
        return [lane.sizes for lane in (*self._lanes, self._nursery)]

    async def push(self, items: Sequence[NewMessage], *, careful: bool = False) -> list[Pushed]:
        """Store all items or none; creates queues and partitions on first use."""
        if not items:
            return []
        validate(items)
        items = list(items)
        if careful:
            return await self._alone(await self._seal(items), careful=True)
        try:
            return await self._store(self._sealed(items))
        except errors.EncryptionRequired:
            return await self._store(await self._seal(items))

    async def prepare(self, items: Sequence[NewMessage]) -> list[NewMessage]:
        """Validated, numbered and sealed items for `push_in`; safe to use again when it is repeated."""
        validate(items)
        items = list(items)
        mint([items])
        return await self._seal(items)

    async def push_in(self, connection: Connection, items: list[NewMessage]) -> tuple[list[Pushed], Woken]:
        """Store prepared items inside a transaction; whoever they woke is to be told once it has committed."""
        if not items:
            return [], []
        call = Call([items])
        rows = await connection.fetch(query("engine/push"), *call.arguments())
        return _single(call.answers(rows)), call.woken(rows)

    async def _store(self, items: list[NewMessage]) -> list[Pushed]:
        if len(items) > SMALL:
            return await self._alone(items)
        # One lane per partition: calls for the same partition never wait for each other's locks.
        queue, partition = items[0].queue, items[0].partition
        lane = self._lanes[_number(queue, partition) % len(self._lanes)]
        end = asyncio.get_running_loop().time() + self._limit
        try:
            for attempt, delay in enumerate(self._delays, 1):
                try:
                    return await lane.submit(items, len(items), end)
                except errors.PartitionBusy:
                    if attempt >= _PATIENCE and self._has_line(queue, partition):
                        return await self._in_line(items, end)
                    await asyncio.sleep(delay)
                except _Absent:
                    lane = self._nursery
                except OutcomeUnknown:
                    async with asyncio.timeout_at(end):
                        return await self._alone(items, careful=True)
        except TimeoutError as error:
            raise OutcomeUnknown("the database did not answer in time") from error
        raise errors.PartitionBusy(
            f"partition {partition!r} of queue {queue!r} is held by another transaction; try again"
        )

    def _has_line(self, queue: str, partition: str) -> bool:
        return (queue, partition) in self._lines or len(self._lines) < _LINES

    async def _in_line(self, items: list[NewMessage], end: float) -> list[Pushed]:
        """Wait for the partition's lock, together with all other calls for this partition that do."""
        name = items[0].queue, items[0].partition
        line = self._lines.setdefault(name, Coalescer(self._wait_together, limit=1000))
        try:
            return await line.submit(items, len(items), end)
        finally:
            if line.idle:
                self._lines.pop(name, None)

    async def _alone(self, items: list[NewMessage], *, careful: bool = False) -> list[Pushed]:
        mint([items])
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return _single(await self._ask(Call([items], careful=careful)))
            except OutcomeUnknown:
                if attempt == _ATTEMPTS:
                    raise
                careful = True
                await asyncio.sleep(0.1 * attempt)
        raise AssertionError("unreachable")

    async def _together(self, calls: Sequence[list[NewMessage]]) -> Sequence[list[Pushed] | Exception]:
        mint(calls)
        return await self._ask(Call(calls, wait=False, create=False, known=self._ids))

    async def _wait_together(self, calls: Sequence[list[NewMessage]]) -> Sequence[list[Pushed] | Exception]:
        try:
            return await self._ask(Call(calls))
        except errors.PartitionBusy as busy:  # all of them waited for it
            return [busy] * len(calls)

    async def _create_together(self, calls: Sequence[list[NewMessage]]) -> Sequence[list[Pushed] | Exception]:
        return await self._ask(Call(calls, wait=False, create=True))

    async def _ask(self, call: Call) -> list[list[Pushed] | Exception]:
        rows = await self._database.fetch(query("engine/push"), *call.arguments())
        for queue, queue_id in call.woken(rows):
            self._wake.ready(queue, queue_id)
        if len(self._ids) > _NAMES:
            self._ids.clear()
        self._ids.update(call.found(rows))
        return call.answers(rows)

    def _sealed(self, items: list[NewMessage]) -> list[NewMessage]:
        if not self._encrypted:
            return items
        return [
            _Sealed(**{**msgspec.structs.asdict(item), "payload": self._keys.seal(item.payload)})
            if item.queue in self._encrypted and not isinstance(item, _Sealed)
            else item
            for item in items
        ]

    async def _seal(self, items: list[NewMessage]) -> list[NewMessage]:
        rows = await self._database.fetch(query("engine/encrypted_queues"), list({item.queue for item in items}))
        self._encrypted.update(row["name"] for row in rows)
        return self._sealed(items)

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        for lane in (*self._lanes, self._nursery, *self._lines.values()):
            await lane.drain()


def _single(answers: list[list[Pushed] | Exception]) -> list[Pushed]:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    return answer


class _Sealed(NewMessage, frozen=True, kw_only=True):
    """A message whose payload is an envelope already."""


class _Absent(Exception):
    """The call names a queue or partition that does not exist yet: to be created on its own."""


def mint(calls: Sequence[list[NewMessage]]) -> None:
    """Give every message its id, in place: before the first attempt, so that a repeated one is recognised.

    An id that was not made here becomes the transaction id as well, if there is none: only by the index would such a
    message be found again.
    """
    missing: list[tuple[list[NewMessage], int]] = []
    for items in calls:
        for place, item in enumerate(items):
            if item.id is None:
                missing.append((items, place))
            elif item.transaction_id is None and not made_here(item.id):
                items[place] = msgspec.structs.replace(item, transaction_id=str(item.id))
    for (items, place), new in zip(missing, uuid7s(len(missing)), strict=True):
        items[place] = msgspec.structs.replace(items[place], id=new)


class Call:
    """The arguments of one database call for one or more callers, and the way back from its rows."""

    def __init__(
        self,
        calls: Sequence[Sequence[NewMessage]],
        *,
        wait: bool = True,
        careful: bool = False,
        create: bool = True,
        known: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        self._calls = calls
        self._wait, self._careful, self._create = wait, careful, create
        placed: dict[tuple[str, str], list[tuple[int, int, NewMessage]]] = {}
        for caller, items in enumerate(calls):
            for place, item in enumerate(items):
                placed.setdefault((item.queue, item.partition), []).append((caller, place, item))
        self._ids: list[int] | None = None
        self.lanes = list(placed)
        if known is not None and placed.keys() <= known.keys():
            self.lanes.sort(key=known.__getitem__)
            self._ids = [known[lane] for lane in self.lanes]
        self._placed = [placed[lane] for lane in self.lanes]
        self._flat = [entry for lane in self._placed for entry in lane]

    def arguments(self) -> tuple[Any, ...]:
        """The parameters of queen.push_messages, in order; arrays nobody needs are null."""
        several = len(self.lanes) > 1
        items = [item for _, _, item in self._flat]
        transactions = [item.transaction_id for item in items]
        return (
            [queue for queue, _ in self.lanes],
            [partition for _, partition in self.lanes],
            [number for number, lane in enumerate(self._placed, 1) for _ in lane] if several else None,
            [rank for lane in self._placed for rank in range(len(lane))] if several else None,
            [item.id for item in items],
            [item.payload for item in items],
            _unless_empty(transactions),
            _unless_empty([item.trace_id for item in items]),
            _unless_empty([item.parent_id for item in items]),
            _unless_empty([item.deliver_at for item in items]),
            _unless_empty([item.producer_sub for item in items]),
            _unless_empty([True if isinstance(item, _Sealed) else None for item in items]),
            [caller + 1 for caller, _, _ in self._flat] if len(self._calls) > 1 else None,
            self._wait,
            self._careful or (None if any(map(may_be_made_here, filter(None, transactions))) else False),
            self._create,
            self._ids,
        )

    def found(self, rows: list[Row]) -> dict[tuple[str, str], int]:
        """The partition of each lane that has something stored."""
        return {self.lanes[row["lane"] - 1]: row["partition_id"] for row in rows if row["partition_id"] is not None}

    def woken(self, rows: list[Row]) -> Woken:
        """The queues of which some lane had nothing waiting until this call.

        A partition's first message counts: whoever waited for it before it existed had no lane to be woken.
        """
        return list(
            {(self.lanes[row["lane"] - 1][0], row["queue_id"]) for row in rows if row["woken"] or row["seq"] == 1}
        )

    def answers(self, rows: list[Row]) -> list[list[Pushed] | Exception]:
        """Each caller's results in the order of its items, or the reason nothing of it was stored."""
        found = [cast("list[Pushed]", [None] * len(items)) for items in self._calls]
        failed: dict[int, Exception] = {}
        limited: dict[str, Row] = {}
        for row in rows:
            lane, number, status, partition_id, seq, message_id, *_ = row
            if status == "depth":
                limited[self.lanes[lane - 1][0]] = row
            elif number is None:
                for caller, place, item in self._placed[lane - 1]:
                    found[caller][place] = _pushed(item, "queued", item.id, partition_id, seq)
                    seq += 1
            elif status in ("queued", "duplicate", "scheduled"):
                caller, place, item = self._flat[number - 1]
                found[caller][place] = _pushed(item, status, message_id, partition_id, seq)
            else:
                caller, _, item = self._flat[number - 1]
                failed[caller] = _refused(row, item)
        return [
            failed.get(caller) or ([_with_depth(pushed, limited) for pushed in each] if limited else each)
            for caller, each in enumerate(found)
        ]


def _unless_empty(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def _pushed(item: NewMessage, status: PushStatus, found: UUID | None, partition_id: int, seq: int | None) -> Pushed:
    assert found is not None
    return Pushed(
        status=status,
        id=found,
        queue=item.queue,
        partition=item.partition,
        partition_id=partition_id,
        transaction_id=item.transaction_id or str(found),
        seq=seq,
        trace_id=item.trace_id,
    )


def _with_depth(pushed: Pushed, limited: dict[str, Row]) -> Pushed:
    row = limited.get(pushed.queue)
    if row is None:
        return pushed
    left = max(row["queue_limit"] - row["depth"], 0)
    return msgspec.structs.replace(pushed, depth=row["depth"], remaining=left)


def _refused(row: Row, item: NewMessage) -> Exception:
    if row["status"] == "absent":
        return _Absent()
    if row["status"] == "busy":
        return errors.PartitionBusy(f"partition {item.partition!r} of queue {item.queue!r} is busy; try again")
    return errors.QueueFull(
        f"queue {item.queue!r} is full: {row['depth']} of {row['queue_limit']} messages",
        figures={"queue": item.queue, "depth": row["depth"], "limit": row["queue_limit"]},
    )
