"""ack: say what became of messages; renew and release their leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.batching import CALLS, BatchSizes, Coalescer
from queen.engine.wake import Wake
from queen.model import Ack, Acked, LeaseAck, Message, Renewal
from queen.sql import query

SMALL: Final = 64
MAX_ERROR: Final = 10_000
_BUSY_DELAYS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25)

_ENDED: Final = Acked(verdict="acked", released=True)
_ACKED: Final = Acked(verdict="acked")
# What an entry became; those that are acknowledged under a lease that goes on are not told.
_ANSWERS: Final = {"acked": _ENDED, "lost": Acked(verdict="lost"), "busy": None}

T = TypeVar("T")
_SEQ = attrgetter("seq")


class Acker:
    """Takes acknowledgements for an engine."""

    def __init__(self, database: Database, wake: Wake) -> None:
        self._database = database
        self._wake = wake
        self._leases: Coalescer[Sequence[LeaseAck], list[Acked | None]] = Coalescer(self._leases_together, calls=CALLS)
        self._messages: Coalescer[Sequence[Ack], list[Acked | None]] = Coalescer(self._messages_together)

    @property
    def sizes(self) -> list[BatchSizes]:
        """How the micro-batches went."""
        return [self._leases.sizes, self._messages.sizes]

    def under_way(self) -> bool:
        """Whether acknowledgements are being taken right now."""
        return self._leases.busy or self._messages.busy

    async def ack_leases(self, acks: Sequence[LeaseAck]) -> list[Acked]:
        """Everything up to a seq is done, for each lease; a lost lease changes nothing and says so."""
        if not acks:
            return []
        first = await self._leases.submit(acks, len(acks))
        if None not in first:
            return cast("list[Acked]", first)

        async def alone(rest: Sequence[LeaseAck]) -> list[Acked | None]:
            return [answer for ack in rest for answer in await self._leases_once([ack], wait=True)]

        return await _again(acks, first, self._leases, alone)

    async def ack_popped(self, messages: Sequence[Message]) -> list[Acked]:
        """Everything in these popped messages is done: one acknowledgement per partition and lease."""
        if len(messages) > 1:
            last = {(message.partition_id, message.lease_id): message for message in sorted(messages, key=_SEQ)}
            messages = list(last.values())
        return await self.ack_leases(
            [
                LeaseAck(
                    partition_id=message.partition_id,
                    lease_id=message.lease_id,
                    up_to=message.seq,
                    group=message.group,
                )
                for message in messages
                if message.lease_id is not None
            ]
        )

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """The outcome of single messages, decided once per call, partition and group."""
        if not acks:
            return []

        async def alone(rest: Sequence[Ack]) -> list[Acked | None]:
            return await self._messages_once([rest], wait=True)

        if len(acks) > SMALL:
            return await _again(acks, [None] * len(acks), None, alone)
        return await _again(acks, await self._messages.submit(acks, len(acks)), self._messages, alone)

    async def former_partitions(self, ids: Sequence[UUID]) -> dict[UUID, int]:
        """Which partitions took the place of those that an earlier schema knew by these ids."""
        rows = await self._database.fetch(query("engine/former_partitions"), list(ids))
        return {row["former_id"]: row["partition_id"] for row in rows}

    async def renew(self, leases: Sequence[UUID], seconds: int) -> list[Renewal]:
        """Let leases live at least `seconds` longer; one that ran out is not revived."""
        if not 1 <= seconds <= 86_400:
            raise errors.InvalidRequest("seconds", "seconds must be between 1 and 86400")
        rows = await self._database.fetch(query("engine/renew_leases"), list(leases), seconds)
        return [Renewal(renewed=row["renewed"], expires_at=row["expires_at"]) for row in rows]

    async def release(self, leases: Sequence[UUID], delay_ms: int = 0, *, failed: bool = False) -> list[int]:
        """Hand leases back, uncounted unless `failed`; returns how many partitions each held."""
        if not 0 <= delay_ms <= 86_400_000:
            raise errors.InvalidRequest("delay_ms", "delayMs must be between 0 and 86400000")
        rows = await self._database.fetch(
            query("engine/fail_leases" if failed else "engine/release"), list(leases), delay_ms
        )
        for row in rows:
            for queue_id in row["queue_ids"]:
                self._wake.ready(None, queue_id)
        return [row["released"] for row in rows]

    async def _leases_together(self, calls: Sequence[Sequence[LeaseAck]]) -> list[list[Acked | None]]:
        flat = [ack for call in calls for ack in call]
        if len({(ack.partition_id, ack.group) for ack in flat}) == len(flat):
            return _per_call(calls, await self._leases_once(flat, wait=False))
        # The same lane twice in one statement cannot be decided: each round has every lane at most once.
        answers: list[Acked | None] = [None] * len(flat)
        rounds: list[dict[tuple[int, str], int]] = []
        for place, ack in enumerate(flat):
            lane = (ack.partition_id, ack.group)
            free = next((taken for taken in rounds if lane not in taken), None)
            if free is None:
                rounds.append(free := {})
            free[lane] = place
        for places in (list(taken.values()) for taken in rounds):
            found = await self._leases_once([flat[place] for place in places], wait=False)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return _per_call(calls, answers)

    async def _leases_once(self, acks: Sequence[LeaseAck], *, wait: bool) -> list[Acked | None]:
        rows = await self._database.fetch(query("engine/ack_leases"), *_lease_arguments(acks), wait)
        answers: list[Acked | None] = [_ACKED] * len(acks)
        for entry, status, _ in rows:
            answers[entry - 1] = _ANSWERS[status]
        # Whoever waits hears once per queue, not once per acknowledgement.
        for queue_id in {queue_id for _, _, queue_id in rows if queue_id is not None}:
            self._wake.ready(None, queue_id, announce=False)
        return answers

    async def _messages_together(self, calls: Sequence[Sequence[Ack]]) -> list[list[Acked | None]]:
        return _per_call(calls, await self._messages_once(calls, wait=False))

    async def _messages_once(self, calls: Sequence[Sequence[Ack]], *, wait: bool) -> list[Acked | None]:
        rows = await self._database.fetch(query("engine/ack_messages"), *message_arguments(calls), wait, False)
        for queue, queue_id in {(row["queue_name"], row["queue_id"]) for row in rows if row["released"]}:
            self._wake.ready(queue, queue_id, announce=False)
        return [None if row["status"] == "busy" else read_acked(row) for row in rows]

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        await self._leases.drain()
        await self._messages.drain()


def read_acked(row: Row) -> Acked:
    """The result in one row of queen.ack_messages."""
    return Acked(
        verdict=row["status"],
        released=row["released"],
        dead_letter=row["dead"],
        queue=row["queue_name"],
        partition=row["partition_name"],
    )


def _per_call(calls: Sequence[Sequence[T]], answers: Sequence[Acked | None]) -> list[list[Acked | None]]:
    if len(calls) == len(answers):  # no call is empty, so each had one
        return [[answer] for answer in answers]
    rest = iter(answers)
    return [[next(rest) for _ in call] for call in calls]


async def _again(
    acks: Sequence[T],
    first: Sequence[Acked | None],
    together: Coalescer[Sequence[T], list[Acked | None]] | None,
    alone: Callable[[Sequence[T]], Awaitable[list[Acked | None]]],
) -> list[Acked]:
    """The answers in order. Those that met a busy lane are asked again, at last by waiting; the others never twice."""
    answers = {place: answer for place, answer in enumerate(first) if answer is not None}
    for delay in (*_BUSY_DELAYS, None):
        open_ = [place for place in range(len(acks)) if place not in answers]
        if not open_:
            break
        rest = [acks[place] for place in open_]
        if together is None or delay is None:
            found = await alone(rest)
        else:
            await asyncio.sleep(delay)
            found = await together.submit(rest, weight=len(rest))
        answers |= {place: answer for place, answer in zip(open_, found, strict=True) if answer is not None}
    if len(answers) < len(acks):
        raise errors.PartitionBusy("a partition is held by another transaction; try again")
    return [answers[place] for place in range(len(acks))]


def _lease_arguments(acks: Sequence[LeaseAck]) -> tuple[Any, ...]:
    return (
        [ack.partition_id for ack in acks],
        [ack.group for ack in acks],
        [ack.lease_id for ack in acks],
        [ack.up_to for ack in acks],
    )


def message_arguments(calls: Sequence[Sequence[Ack]]) -> tuple[Any, ...]:
    """The arrays of queen.ack_messages for one or more calls."""
    flat = [(number, ack) for number, call in enumerate(calls, 1) for ack in call]
    return (
        [number for number, _ in flat],
        [ack.partition_id for _, ack in flat],
        [ack.group for _, ack in flat],
        [ack.lease_id for _, ack in flat],
        [ack.transaction_id for _, ack in flat],
        _any([ack.seq for _, ack in flat]),
        [ack.status for _, ack in flat],
        _any([_error(ack.error) for _, ack in flat]),
    )


def _any(values: list[T]) -> list[T] | None:
    """The values, or none at all: an array costs by its length, whatever is in it."""
    return None if all(value is None for value in values) else values


def _error(text: str | None) -> str | None:
    return text if text is None else text.replace("\0", "\N{SYMBOL FOR NULL}")[:MAX_ERROR]
