"""What a queue promises, said without SQL: partitions, groups and options in plain Python, with time as an argument.

Some things happen when the database gets to them (an eviction, the end of a message that was delivered too often), so
the model does not foretell them: it says for each message that a cursor passed whether a rule explains that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

QUEUE_MODE = "__QUEUE_MODE__"

Status = Literal["completed", "failed", "dlq", "retry"]
Key = tuple[str, str]  # partition, group


class Violation(AssertionError):
    """The database did what no rule explains, or did not do what a rule demands."""


def demand(condition: object, what: str) -> None:
    if not condition:
        raise Violation(what)


@dataclass
class Options:
    """A queue's configuration, under the names it has there. Times in seconds, but retry_delay."""

    lease_time: int = 60
    retry_limit: int = 3
    retry_delay: int = 0
    max_deliveries: int = 0
    partial_failure: Literal["dlq", "retry"] = "dlq"
    delayed_processing: int = 0
    window_buffer: int = 0
    retention_enabled: bool = False
    retention_seconds: int = 0
    completed_retention_seconds: int = 0
    max_wait_time_seconds: int = 0
    max_queue_size: int = 0
    delivery_log: bool = True
    paused: bool = False

    def overdue(self, created: float, now: float) -> bool:
        return self.max_wait_time_seconds > 0 and created < now - self.max_wait_time_seconds

    def aged(self, created: float, now: float) -> bool:
        return self.retention_enabled and 0 < self.retention_seconds < now - created

    def completed_aged(self, created: float, now: float) -> bool:
        return self.retention_enabled and 0 < self.completed_retention_seconds < now - created


@dataclass
class Lease:
    """`handed`: what was given to a handler; the rest of a prefetched batch was not. `auto`: acknowledged at once.

    Of a prefetched batch only the first was given for certain: if it is passed, an expiry counts for nobody.
    """

    token: UUID
    seqs: list[int]
    expires: float
    handed: set[int]
    auto: bool = False
    prefetched: bool = False

    @property
    def counted(self) -> set[int]:
        """The messages that an expiry counts for."""
        return {self.seqs[0]} if self.prefetched else self.handed

    @property
    def last(self) -> int:
        return self.seqs[-1]


@dataclass
class Cursor:
    """One group in one partition. `retries` belong to the message that was first when they were spent."""

    at: int = 0
    lease: Lease | None = None
    not_before: float = 0
    retries: int = 0
    first: int | None = None
    again: bool = False  # something failed or expired here: it comes again by itself, in a batch that may be short
    ran_out: Counter[int] = field(default_factory=Counter)  # leases that ran out, by message that was handed out
    buried: set[int] = field(default_factory=set)
    received: set[int] = field(default_factory=set)
    consumed: tuple[int, int] = (0, 0)  # at least (what was there), at most (with the holes)

    def live(self, now: float) -> bool:
        return self.lease is not None and self.lease.expires > now

    def count(self, low: int, high: int) -> None:
        self.consumed = self.consumed[0] + low, self.consumed[1] + high


@dataclass
class Partition:
    id: int = 0
    next: int = 1
    last_created: float = 0
    kept: dict[int, float] = field(default_factory=dict)  # seq: when it was created
    transactions: dict[int, str] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)  # bytes of those that are more than {}
    _order: list[int] | None = None

    def after(self, seq: int) -> list[int]:
        """The seqs kept beyond this one, in order."""
        if self._order is None:
            self._order = list(self.kept)
        return self._order[bisect_right(self._order, seq) :]

    def store(self, transaction: str, now: float) -> int:
        seq, self.next = self.next, self.next + 1
        self._order, self.last_created = None, now
        self.kept[seq] = now
        self.transactions[seq] = transaction
        self.seqs[transaction] = seq
        return seq

    def remove(self, seq: int) -> None:
        self._order = None
        del self.kept[seq]
        del self.seqs[self.transactions.pop(seq)]


@dataclass
class DeadLetter:
    id: int
    evicted: bool
    redriven: bool = False


@dataclass
class Scheduled:
    due: float
    partition: str
    transaction: str


class Model:
    """One queue. Its time is `now`, moved by whoever drives it."""

    def __init__(self, options: Options, now: float) -> None:
        self.options = options
        self.now = now
        self.partitions: dict[str, Partition] = {}
        self.cursors: dict[Key, Cursor] = {}
        self.groups: dict[str, float] = {}  # since when
        self.dead: dict[tuple[str, str, int], list[DeadLetter]] = {}
        self.scheduled: list[Scheduled] = []
        self.expected: Counter[tuple[str, str, int]] = Counter()  # dead letters this step has to leave
        self.settling: set[str] = set()  # groups that came beside an open transaction and were not looked after since
        self.unsettled: set[Key] = set()  # cursors that the next pop of their group may have to make first

    # What waits

    def pending(self, key: Key) -> list[int]:
        """The seqs a group has still to get, in order."""
        cursor = self.cursors[key]
        return [seq for seq in self.partitions[key[0]].after(cursor.at) if seq not in cursor.buried]

    def depth(self) -> tuple[int, int]:
        """What the slowest group has not passed, at least and at most: what a group buried may count or not."""
        low = high = 0
        for name, partition in self.partitions.items():
            keys = [key for key in self.cursors if key[0] == name]
            behind = min((self.cursors[key].at for key in keys), default=0)
            low += max((len(self.pending(key)) for key in keys), default=len(partition.kept))
            high += sum(seq > behind for seq in partition.kept)
        return low, high

    def young(self, key: Key, first: int) -> float:
        """Until when delay and window hide a cursor whose first message is `first`."""
        partition, options = self.partitions[key[0]], self.options
        created = partition.kept[first]
        until = created + options.delayed_processing
        if options.window_buffer:
            rest = partition.last_created + options.window_buffer
            until = max(until, min(rest, created + 10 * options.window_buffer))
        return until

    def past(self, key: Key, seq: int) -> bool:
        """Whether a rule may take this message away before it is handed out."""
        created = self.partitions[key[0]].kept[seq]
        return self.options.overdue(created, self.now) or self.options.aged(created, self.now)

    def may_die(self, key: Key, seq: int) -> bool:
        """Whether max_deliveries gives this message up when its partition is taken over."""
        cursor, limit = self.cursors[key], self.options.max_deliveries
        ran_out = cursor.lease is not None and cursor.lease.expires <= self.now and seq in cursor.lease.counted
        return limit > 0 and ran_out and cursor.ran_out[seq] + 1 >= limit

    def ready(self, key: Key) -> list[int]:
        """The messages that a pop must find here, whatever the database did already by itself."""
        cursor, created = self.cursors[key], self.partitions[key[0]].kept
        if self.options.paused or cursor.live(self.now) or cursor.not_before > self.now:
            return []
        options, now = self.options, self.now
        waiting = [seq for seq in self.pending(key) if not self.past(key, seq) and not self.may_die(key, seq)]
        if not waiting or self.young(key, waiting[0]) > now:
            return []
        return [seq for seq in waiting if created[seq] + options.delayed_processing <= now]

    def retries(self, key: Key) -> int:
        """How many retries the first message has spent."""
        cursor, waiting = self.cursors[key], self.pending(key)
        return cursor.retries if waiting and waiting[0] == cursor.first else 0

    # What is done to it

    def register(self, group: str, mode: str) -> None:
        if group not in self.groups:
            self.groups[group] = self.now
            for name, partition in self.partitions.items():
                self.cursors[name, group] = Cursor(at=partition.next - 1 if mode == "new" else 0)

    def partition(self, name: str) -> Partition:
        """The partition; its first push makes it, with a cursor for every group."""
        if name not in self.partitions:
            self.partitions[name] = Partition()
            for group in self.groups:
                self.cursors[name, group] = Cursor()
        return self.partitions[name]

    def forget(self, group: str) -> None:
        self.groups.pop(group, None)
        self.settling.discard(group)
        self.unsettled = {key for key in self.unsettled if key[1] != group}
        for key in [key for key in self.cursors if key[1] == group]:
            del self.cursors[key]

    def take(self, key: Key, lease: Lease | None) -> None:
        """A pop found the lease that was there run out, or none, and gives its messages to somebody else."""
        cursor = self.cursors[key]
        if cursor.lease is not None:
            cursor.ran_out.update(seq for seq in cursor.lease.counted if seq > cursor.at)
            cursor.again = True
            cursor.lease = None
        if lease is not None:
            cursor.lease, cursor.not_before = lease, 0

    def ack_up_to(self, key: Key, token: UUID, up_to: int) -> str:
        cursor = self.cursors.get(key)
        if cursor is None or cursor.lease is None or cursor.lease.token != token:
            return "lost"
        self.advance(key, min(max(cursor.at, up_to), cursor.lease.last), completed=True)
        self.end_if_done(key, looked=False)
        return "acked"

    def advance(self, key: Key, to: int, *, completed: bool) -> None:
        """The cursor goes on: the message that is now first has spent nothing yet."""
        cursor = self.cursors[key]
        if to > cursor.at:
            passed = [seq for seq in self.pending(key) if seq <= to]
            cursor.count(len(passed) if completed else 0, to - cursor.at)
            cursor.at, cursor.retries, cursor.again = to, 0, False

    def end_if_done(self, key: Key, *, looked: bool = True) -> None:
        """A lease with nothing left to finish is over; who does not look at messages leaves one with buried ones."""
        cursor = self.cursors[key]
        left = self.pending(key) if looked else self.partitions[key[0]].after(cursor.at)
        if cursor.lease and not any(cursor.at < seq <= cursor.lease.last for seq in left):
            cursor.count(0, max(cursor.lease.last - cursor.at, 0))  # deleted while they were leased: finished or not
            cursor.lease, cursor.not_before = None, 0

    def ack(self, key: Key, token: UUID, items: dict[int, Status], *, at_once: bool = False) -> list[str]:
        """The table of outcomes, decided once per call; `items` by seq in order."""
        cursor = self.cursors.get(key)
        if cursor is None or cursor.lease is None or cursor.lease.token != token:
            return ["unknown" if cursor is None else "lost"] * len(items)
        was, lease = cursor.at, cursor.lease
        kept = self.partitions[key[0]].kept
        known = {seq: status for seq, status in items.items() if seq <= lease.last and seq in kept}
        if not known:
            return ["unknown"] * len(items)
        mixed = self.options.partial_failure == "dlq" and any(
            status in ("completed", "dlq") for seq, status in known.items() if seq > was
        )
        retries, back = self.retries(key), None
        for seq, status in known.items():
            if seq <= was:
                if status in ("failed", "dlq") and seq >= lease.seqs[0] and (*key, seq) not in self.dead:
                    self.expected[(*key, seq)] += 1
            elif back is None:
                front = seq in self.pending(key)[:1] or seq in cursor.buried
                spent = mixed or at_once or (front and retries >= self.options.retry_limit)
                if status == "completed":
                    retries = 0
                    self.advance(key, seq, completed=True)
                elif status == "dlq" or (status == "failed" and spent):
                    self.expected[(*key, seq)] += seq not in cursor.buried
                    self.advance(key, seq, completed=False)
                    retries = 0 if status == "dlq" or mixed else retries
                else:
                    back = status
                    self._hand_back(key, retries if cursor.at == was else 0, status, front=front)
        self.end_if_done(key)
        return [_verdict(seq, known.get(seq), was, lease) for seq in items]

    def _hand_back(self, key: Key, retries: int, status: Status, *, front: bool) -> None:
        """A failure of what is first spends a retry; one behind others waits until it is first."""
        cursor, waiting = self.cursors[key], self.pending(key)
        failed = status == "failed"
        cursor.retries, cursor.first = retries + (failed and front), waiting[0] if waiting else None
        cursor.again = cursor.again or failed
        cursor.lease, cursor.not_before = None, self.now + (self.options.retry_delay / 1000 if failed else 0.0)

    def release(self, token: UUID, until: float) -> int:
        held = [cursor for cursor in self.cursors.values() if cursor.lease and cursor.lease.token == token]
        for cursor in held:
            cursor.lease, cursor.not_before = None, until
        return len(held)

    def renew(self, token: UUID, until: float) -> int:
        held = [
            cursor.lease
            for cursor in self.cursors.values()
            if cursor.lease and cursor.live(self.now) and cursor.lease.token == token
        ]
        for lease in held:
            lease.expires = max(lease.expires, until)
        return len(held)

    def seek(self, key: Key, to: int) -> None:
        cursor = self.cursors[key]
        cursor.at, cursor.lease, cursor.retries, cursor.not_before, cursor.again = to, None, 0, 0, False
        cursor.ran_out.clear()

    def delete(self, name: str, seq: int) -> None:
        self.partitions[name].remove(seq)
        for key in [key for key in self.dead if key[0] == name and key[2] == seq]:
            del self.dead[key]

    # What the database did by itself

    def explain(self, key: Key, seq: int, dead: DeadLetter | None) -> None:
        """A cursor passed a message that nobody acknowledged: some rule must say so."""
        cursor, options, now = self.cursors[key], self.options, self.now
        created = self.partitions[key[0]].kept[seq]
        where = f"{key[1]} passed {key[0]}/{seq}"
        demand(not cursor.live(now), f"{where} under a live lease")
        if dead is not None and not dead.evicted:
            demand(self.may_die(key, seq), f"{where}: a dead letter that was not delivered too often")
        elif not options.aged(created, now):
            demand(options.overdue(created, now), f"{where}: nobody acknowledged it and no rule explains that")
            history = key[1] != QUEUE_MODE and options.overdue(created, self.groups[key[1]])
            demand(history or dead is not None, f"{where}, overdue, without a dead letter")

    def may_remove(self, name: str, seq: int) -> bool:
        """Whether retention may take this message."""
        created = self.partitions[name].kept[seq]
        keys = [key for key in self.cursors if key[0] == name]
        leased = [self.cursors[key] for key in keys if self.cursors[key].live(self.now)]
        if self.options.aged(created, self.now):
            return not any(cursor.lease and cursor.at < seq <= cursor.lease.last for cursor in leased)
        passed = bool(keys) and all(seq not in self.pending(key) for key in keys)
        return passed and self.options.completed_aged(created, self.now)

    def must_remove(self, name: str, seq: int) -> bool:
        """Whether a full run of retention has to take this message."""
        created = self.partitions[name].kept[seq]
        cursors = [self.cursors[key] for key in self.cursors if key[0] == name]
        if self.options.aged(created, self.now):
            return all(seq <= cursor.at for cursor in cursors if cursor.live(self.now))
        passed = bool(cursors) and not self.settling and all(seq <= cursor.at for cursor in cursors)
        return passed and self.options.completed_aged(created, self.now)


def _verdict(seq: int, status: Status | None, was: int, lease: Lease) -> str:
    if status is None:
        return "unknown"
    if seq > was:
        return "acked"
    if status == "completed":
        return "noop"
    return "acked" if status in ("failed", "dlq") and seq >= lease.seqs[0] else "committed"
