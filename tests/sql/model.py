"""What the verbs should do, said without SQL: a queue of partitions and groups in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

Status = Literal["completed", "failed", "dlq", "retry"]


@dataclass
class Lease:
    token: UUID
    first: int
    last: int
    expires: float


@dataclass
class Lane:
    """One group in one partition."""

    cursor: int = 0
    lease: Lease | None = None
    retries: int = 0
    not_before: float = 0
    dead: list[int] = field(default_factory=list)


@dataclass
class Partition:
    name: str
    next: int = 1
    first: int = 1
    by_transaction: dict[str, int] = field(default_factory=dict)
    transactions: dict[int, str] = field(default_factory=dict)
    created: dict[int, float] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)

    def push(self, transaction: str, now: float) -> tuple[str, int]:
        """Status and seq of one message."""
        if transaction in self.by_transaction:
            return "duplicate", self.by_transaction[transaction]
        seq, self.next = self.next, self.next + 1
        self.by_transaction[transaction] = seq
        self.transactions[seq] = transaction
        self.created[seq] = now
        return "queued", seq

    def remove(self, seq: int) -> None:
        del self.by_transaction[self.transactions.pop(seq)]
        del self.created[seq]

    def pending(self, cursor: int) -> list[int]:
        """The seqs a cursor has not passed, without those removed."""
        return [seq for seq in range(max(cursor + 1, self.first), self.next) if seq in self.created]


class Model:
    """The queue. `partial` and `limit` are its partial_failure and retry_limit."""

    def __init__(self, partitions: list[str], groups: list[str], partial: str, limit: int) -> None:
        self.partitions = {name: Partition(name) for name in partitions}
        self.lanes = {(name, group): Lane() for name in partitions for group in groups}
        self.partial, self.limit = partial, limit
        self.paused = False

    def open_lanes(self, group: str, now: float) -> list[str]:
        """The partitions that may be handed out to a group now, with something in them."""
        return [] if self.paused else [
            name
            for (name, owner), lane in self.lanes.items()
            if owner == group and lane.not_before <= now and (lane.lease is None or lane.lease.expires <= now)
            and self.partitions[name].pending(lane.cursor)
        ]  # fmt: skip

    def batch(self, name: str, group: str, size: int) -> list[int]:
        """What a pop of `size` gets from a lane: `size` places from the first message on, less the deleted ones."""
        waiting = self.partitions[name].pending(self.lanes[name, group].cursor)
        return [seq for seq in waiting if seq < waiting[0] + size]

    def pop(self, name: str, group: str, size: int, token: UUID, expires: float) -> list[int]:
        lane, seqs = self.lanes[name, group], self.batch(name, group, size)
        lane.cursor = seqs[0] - 1
        lane.lease = Lease(token, seqs[0], seqs[-1], expires)
        return seqs

    def ack_up_to(self, name: str, group: str, token: UUID, up_to: int) -> str:
        lane = self.lanes[name, group]
        if lane.lease is None or lane.lease.token != token:
            return "lost"
        moved = min(max(lane.cursor, up_to), lane.lease.last)
        if moved > lane.cursor:
            lane.retries = 0
        lane.cursor = moved
        if lane.cursor >= lane.lease.last:
            lane.lease, lane.not_before = None, 0
        return "acked"

    def ack(self, name: str, group: str, token: UUID, items: dict[int, Status], now: float, delay: float) -> list[str]:
        """The table of outcomes, decided once per call; `items` by seq in order."""
        lane = self.lanes[name, group]
        if lane.lease is None or lane.lease.token != token:
            return ["lost"] * len(items)
        was, lease = lane.cursor, lane.lease
        created = self.partitions[name].created
        known = {seq: status for seq, status in items.items() if seq <= lease.last and seq in created}
        mixed = self.partial == "dlq" and any(s in ("completed", "dlq") for seq, s in known.items() if seq > was)
        before = len(lane.dead)
        handed_back: float | None = None
        for seq, status in known.items():
            if seq <= was:
                if status in ("failed", "dlq") and seq >= lease.first and seq not in lane.dead:
                    lane.dead.append(seq)
            elif handed_back is None:
                wait = self._decide(lane, seq, status, mixed=mixed, delay=delay)
                handed_back = None if wait is None else now + wait
        if len(lane.dead) > before and handed_back is None:
            lane.retries = 0
        if handed_back is not None or lane.cursor >= lease.last:
            lane.lease, lane.not_before = None, handed_back or 0
        return [_verdict(seq, known.get(seq), was, lease) for seq in items]

    def _decide(self, lane: Lane, seq: int, status: Status, *, mixed: bool, delay: float) -> float | None:
        """One message past the cursor; returns after how long the rest is handed back, None when it goes on."""
        if status == "completed":
            lane.cursor, lane.retries = seq, 0
            return None
        if status == "retry":
            return 0
        if status == "dlq" or mixed or lane.retries >= self.limit:
            lane.cursor = seq
            lane.dead.append(seq)
            return None
        lane.retries += 1
        return delay

    def release(self, token: UUID, until: float) -> int:
        held = [lane for lane in self.lanes.values() if lane.lease is not None and lane.lease.token == token]
        for lane in held:
            lane.lease, lane.not_before = None, until
        return len(held)

    def renew(self, token: UUID, now: float, until: float) -> int:
        held = [
            lane.lease
            for lane in self.lanes.values()
            if lane.lease is not None and lane.lease.token == token and lane.lease.expires > now
        ]
        for lease in held:
            lease.expires = max(lease.expires, until)
        return len(held)

    def seek(self, group: str, to: Literal["start", "end"]) -> None:
        for (name, owner), lane in self.lanes.items():
            if owner == group:
                partition = self.partitions[name]
                lane.cursor = partition.first - 1 if to == "start" else partition.next - 1
                lane.lease, lane.retries, lane.not_before = None, 0, 0

    def delete(self, name: str, seq: int) -> None:
        self.partitions[name].remove(seq)
        self.partitions[name].deleted.add(seq)
        for (owner, _), lane in self.lanes.items():
            if owner == name:
                lane.dead = [kept for kept in lane.dead if kept != seq]

    def retain(self, name: str, older_than: float, passed: int) -> int:
        """Remove what every group passed and is old enough; returns how many."""
        partition = self.partitions[name]
        old = [seq for seq, created in partition.created.items() if created < older_than]
        up_to = min(max(old, default=partition.first - 1), passed)
        gone = [seq for seq in list(partition.created) if seq <= up_to]
        for seq in gone:
            partition.remove(seq)
        partition.first = max(partition.first, up_to + 1)
        return len(gone)


def _verdict(seq: int, status: Status | None, was: int, lease: Lease) -> str:
    if status is None:
        return "unknown"
    if seq > was:
        return "acked"
    if status == "completed":
        return "noop"
    return "acked" if status in ("failed", "dlq") and seq >= lease.first else "committed"
