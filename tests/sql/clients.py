"""What producers and consumers of one queue may do next, drawn at random, through one of two engines."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

from queen.engine import Engine, RolledBack
from queen.engine.services.jobs import Jobs
from queen.errors import QueueFull
from queen.model import Ack, LeaseAck, Message, Mode, NewMessage, PopRequest
from tests.sql.audit import Audit
from tests.sql.model import QUEUE_MODE, Key, Lease, Model, Options, Scheduled, Status, demand
from tests.support.work import Sql

PARTITIONS, GROUPS = ["p1", "p2", "p3"], [QUEUE_MODE, "g1", "g2"]
OUTBOX = ["o1", "o2"]
LEASE = 60
SIZES = [2, 2, 2, 2, 300, 3000]
BUDGETS = [None, None, None, 1, 500, 3500]


def at(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def payload(size: int) -> str:
    return "{}" if size == 2 else f'"{"x" * (size - 2)}"'


@dataclass
class Held:
    """A transaction that pushed and is open. `joined`: groups that came meanwhile."""

    partition: str
    transactions: list[str]
    at: float
    joined: set[str] = field(default_factory=set)


class Clients:
    """Each method is one step: it draws, calls an engine, and holds the answer against the model."""

    def __init__(
        self, engines: Sequence[Engine], sql: Sql, outbox: Sql, queue: str, options: Options, now: float,
        jobs: Sequence[Jobs],
    ) -> None:  # fmt: skip
        self.engines, self.sql, self.outbox, self.queue, self.jobs = engines, sql, outbox, queue, jobs
        self.held: Held | None = None
        self.model = Model(options, now)
        self.audit = Audit(sql, queue, self.model)
        self.rng = random.Random(0)
        self.engine = engines[0]
        self.action = "configure"
        self.count = 0
        self.handed: list[tuple[Key, UUID, list[int]]] = []

    async def tick(self, seconds: float) -> None:
        self.model.now += seconds
        await self.sql.execute(
            "update queen.settings set value = jsonb_build_object('ahead', 0, 'frozen', $1::float8)"
            " where key = 'test_clock'",
            self.model.now,
        )

    # Producers

    async def push(self) -> None:
        name = self.rng.choice(PARTITIONS)
        fresh = [f"t{self.count + n}" for n in range(self.rng.choice([0, 1, 1, 2, 3, 6]))]
        self.count += len(fresh)
        partition = self.model.partitions.get(name)
        known = [transaction for transaction in partition.seqs if transaction[0] == "t"] if partition else []
        mixed = [*self.rng.sample(known, min(self.rng.choice([0, 0, 1, 2]), len(known))), *fresh]
        self.rng.shuffle(mixed)
        await self.store(name, mixed)

    async def push_answered(self) -> None:
        """Again, with an id that the server had made up and answered."""
        name = self.rng.choice(PARTITIONS)
        partition = self.model.partitions.get(name)
        if partition and (made_up := [transaction for transaction in partition.seqs if transaction[0] != "t"]):
            await self.store(name, [self.rng.choice(made_up)])

    async def push_many(self) -> None:
        """More than any limit of one look or one run of a service."""
        size = self.rng.choice([50, 1100, 2300])
        transactions = [f"t{self.count + n}" for n in range(size)]
        self.count += size
        await self.store(self.rng.choice(PARTITIONS), transactions)

    async def store(self, name: str, transactions: list[str]) -> None:
        """Push under these transaction ids; now and then let the server make one up."""
        if not transactions:
            return
        model = self.model
        known = dict(model.partitions[name].seqs) if name in model.partitions else {}
        made_up = {place for place, t in enumerate(transactions) if t not in known and self.rng.random() < 0.2}
        sizes = [self.rng.choice(SIZES) for _ in transactions]
        items = [
            NewMessage(
                queue=self.queue, partition=name, payload=payload(size), transaction_id=None if n in made_up else t
            )
            for n, (t, size) in enumerate(zip(transactions, sizes, strict=True))
        ]
        new = len(made_up) + len({t for n, t in enumerate(transactions) if n not in made_up and t not in known})
        limit, (low, high) = model.options.max_queue_size, model.depth()
        try:
            pushed = await self.engine.push(items)
        except QueueFull:
            demand(limit and new and high + new > limit, f"full with {high} of {limit} and {new} new")
            return
        demand(not limit or not new or low + new <= limit, f"{new} more than {low} of {limit} were taken")
        partition = model.partition(name)
        for place, (transaction, answer) in enumerate(zip(transactions, pushed, strict=True)):
            status = "duplicate" if place not in made_up and transaction in partition.seqs else "queued"
            demand(answer.status == status, f"{name} {transaction}: {answer.status} instead of {status}")
            if status == "queued":
                seq = partition.store(answer.transaction_id if place in made_up else transaction, model.now)
                partition.sizes[seq] = sizes[place]
            else:
                seq = partition.seqs[transaction]
            demand(answer.seq == seq, f"{name} {transaction}: seq {answer.seq} instead of {seq}")

    async def schedule(self) -> None:
        name, due = self.rng.choice(PARTITIONS), self.model.now + self.rng.choice([3, 30, 300])
        transaction = f"t{self.count}"
        self.count += 1
        item = NewMessage(
            queue=self.queue, partition=name, payload="{}", transaction_id=transaction, deliver_at=at(due)
        )
        try:
            (pushed,) = await self.engine.push([item])
        except QueueFull:
            demand(self.model.options.max_queue_size, "an unlimited queue is full")
            return
        demand(pushed.status == "scheduled", f"{pushed.status} instead of scheduled")
        self.model.partition(name)
        self.model.scheduled.append(Scheduled(due, name, transaction))

    async def hold(self) -> None:
        """Somebody's own transaction pushes into a partition of its own and stays open, or ends."""
        model, rng = self.model, self.rng
        if self.held is None:
            if not model.options.max_queue_size:
                self.held = Held(
                    rng.choice(OUTBOX), [f"t{self.count + n}" for n in range(rng.choice([1, 2]))], model.now
                )
                self.count += len(self.held.transactions)
                await self.outbox.execute("begin")
                for transaction in self.held.transactions:
                    await self.outbox.execute(
                        "select queen.push($1, $2, '{}', transaction_id => $3)",
                        self.queue, self.held.partition, transaction,
                    )  # fmt: skip
            return
        await self.end_held(commit=rng.random() < 0.7)

    async def end_held(self, *, commit: bool) -> None:
        if self.held is None:
            return
        held, self.held = self.held, None
        await self.outbox.execute("commit" if commit else "rollback")
        await self.tick(1)  # who looked meanwhile looks again within a quarter of a second
        if commit:
            made = held.partition not in self.model.partitions
            partition = self.model.partition(held.partition)
            if made:
                self.model.unsettled |= {(held.partition, group) for group in held.joined & set(self.model.groups)}
            for transaction in held.transactions:
                partition.store(transaction, held.at)

    def register(self, group: str, mode: str) -> None:
        if self.held is not None and group not in self.model.groups:
            self.held.joined.add(group)
            self.model.settling.add(group)
        elif self.held is None:
            self.model.settling.discard(group)
        self.model.register(group, mode)

    # Consumers

    async def pop(self) -> None:
        rng = self.rng
        group, size, width = rng.choice(GROUPS), rng.choice([1, 1, 2, 3, 6]), rng.choice([1, 1, 1, 2])
        name, auto = rng.choice([None, None, *PARTITIONS]), rng.random() < 0.1
        mode: Mode = "all" if group == QUEUE_MODE else rng.choice(["all", "all", "new"])
        budget = rng.choice(BUDGETS)
        request = PopRequest(
            queue=self.queue, group=group, batch=size, partitions=width, partition=name, lease_seconds=LEASE,
            auto_ack=auto, mode=mode, max_bytes=budget,
        )  # fmt: skip
        self.register(group, mode)
        found = await self.engine.pop(request)
        if not found:
            self.expect_nothing(group, name)
        self.check_bytes(found, budget)
        await self.receive(group, found, size, alone=width == 1, auto=auto, budget=budget)

    def check_bytes(self, found: list[Message], budget: int | None) -> None:
        total = sum(self.size(message.partition, message.seq) for message in found)
        demand(budget is None or len(found) <= 1 or total <= budget, f"{total} bytes instead of {budget}")

    def size(self, name: str, seq: int) -> int:
        return self.model.partitions[name].sizes.get(seq, 2)

    def expect_nothing(self, group: str, name: str | None) -> None:
        for key in self.model.cursors:
            if key[1] == group and name in (None, key[0]):
                ready = self.model.ready(key)
                evicting = len(self.model.pending(key)) - len(ready) > 500
                demand(not ready or evicting, f"nothing was handed out though {ready} wait in {key}")

    async def receive(
        self, group: str, found: list[Message], size: int, *, alone: bool, auto: bool, budget: int | None = None
    ) -> None:
        """What a pop gave, held against the rules, then against the database."""
        model = self.model
        handed: dict[Key, Lease] = {}
        for name in dict.fromkeys(message.partition for message in found):
            key, mine = (name, group), [message for message in found if message.partition == name]
            seqs = [message.seq for message in mine]
            self.check_batch(key, mine, size if alone else len(mine), budget)
            token = mine[0].lease_id or uuid4()
            handed[key] = Lease(token, seqs, model.now + LEASE, set(seqs), auto)
            if not auto:
                self.handed.append((key, token, seqs))
        await self.audit.check(handed=handed)

    def check_batch(self, key: Key, found: list[Message], size: int, budget: int | None = None) -> None:
        model, seqs = self.model, [message.seq for message in found]
        cursor, kept, options = model.cursors[key], model.partitions[key[0]].kept, model.options
        waiting = [seq for seq in model.pending(key) if seq >= seqs[0]]
        demand(not options.paused, "a paused queue hands out")
        demand(not cursor.live(model.now), f"{key} is handed out twice")
        demand(cursor.not_before <= model.now, f"{key} is handed out before its time")
        demand(waiting[: len(seqs)] == seqs, f"{key}: {seqs} instead of {waiting[:size]}")
        demand(not options.overdue(kept[seqs[0]], model.now), f"{key} {seqs[0]} is overdue")
        demand(model.young(key, seqs[0]) <= model.now, f"{key} {seqs[0]} is too young")
        demand(kept[seqs[-1]] + options.delayed_processing <= model.now, f"{key} {seqs[-1]} is too young")
        more = [seq for seq in waiting[len(seqs) :] if seq < seqs[0] + size]
        more = [seq for seq in more if kept[seq] + options.delayed_processing <= model.now]
        expired = cursor.lease is not None and not cursor.live(model.now)
        full = budget is not None and more and sum(self.size(key[0], seq) for seq in [*seqs, more[0]]) > budget
        demand(cursor.again or expired or full or not more, f"{key}: {more} were left out")
        for message in found:
            demand(model.partitions[key[0]].transactions[message.seq] == message.transaction_id, "another message")
        first = model.pending(key)[0] == seqs[0]
        demand(found[0].retry_count == (model.retries(key) if first else 0), f"{key}: {found[0].retry_count} retries")

    async def consume(self) -> None:
        """A consumer that prefetches, works off a few messages, and closes, fails, or is never heard of again."""
        rng, model = self.rng, self.model
        group, prefetch = rng.choice(GROUPS), rng.choice([1, 3, 8])
        self.register(group, "all")
        request = PopRequest(queue=self.queue, group=group, lease_seconds=LEASE)
        consumer = self.engine.consume(request, prefetch=prefetch)
        held: tuple[Key, UUID] | None = None
        last = 0
        for _ in range(rng.randint(1, 5)):
            message = await consumer.next()
            if held is not None:
                model.ack_up_to(held[0], held[1], last)
            if message is None:
                if held is None:
                    self.expect_nothing(group, None)
                else:  # slow: it gave back the rest of its batch, which nobody gets for now
                    model.release(held[1], model.now)
                held = None
                break
            held = await self.follow(group, message, prefetch, held)
            last = message.seq
        end = "vanish" if held is None else rng.choice(["close", "fail", "vanish"])
        if held is not None and end == "fail":
            await consumer.fail("e")
            model.ack(*held, {last: "failed"})
            await self.audit.check()
        if held is not None and end != "vanish":
            await consumer.close()
            model.release(held[1], model.now)

    async def follow(
        self, group: str, message: Message, prefetch: int, held: tuple[Key, UUID] | None
    ) -> tuple[Key, UUID]:
        """One message of a consumer: the next of its lease, or the first of another."""
        key, token = (message.partition, group), message.lease_id
        assert token is not None
        lease = self.model.cursors[key].lease
        if held == (key, token) and lease is not None:
            waiting = [seq for seq in lease.seqs if seq > self.model.cursors[key].at]
            demand(waiting and message.seq == waiting[0], f"{key}: {message.seq} instead of {waiting}")
            lease.handed.add(message.seq)
            self.model.cursors[key].received.add(message.seq)
            await self.audit.check()
            return key, token
        if held is not None:  # a slow consumer gave back the rest of its batch before it popped again
            self.model.release(held[1], self.model.now)
        row = await self.sql.fetchrow(
            "select batch_from, batch_to from queen.partition_consumers"
            " where partition_id = $1 and consumer_group = $2",
            message.partition_id, group,
        )  # fmt: skip
        assert row is not None
        demand(row["batch_from"] == message.seq, f"the lease begins at {row['batch_from']}, not {message.seq}")
        seqs = [seq for seq in self.model.pending(key) if message.seq <= seq <= row["batch_to"]]
        demand(len(seqs) <= prefetch, f"{len(seqs)} were prefetched instead of {prefetch}")
        self.check_batch(key, [message], 1)
        self.handed.append((key, token, seqs))
        await self.audit.check(handed={key: Lease(token, seqs, self.model.now + LEASE, {message.seq}, prefetched=True)})
        return key, token

    def known_lease(self) -> tuple[Key, UUID, list[int]]:
        """A lease that lives, or one that may be stale."""
        held = {cursor.lease.token for cursor in self.model.cursors.values() if cursor.lease}
        return self.rng.choice([*[entry for entry in self.handed if entry[1] in held], *self.handed[-3:]])

    async def ack_prefix(self) -> None:
        key, token, seqs = self.known_lease()
        up_to = self.rng.choice([*seqs[:8], seqs[-1], seqs[-1], seqs[-1] + 3])
        partition = self.model.partitions[key[0]].id
        (answer,) = await self.engine.ack_leases(
            [LeaseAck(partition_id=partition, lease_id=token, up_to=up_to, group=key[1])]
        )
        expected = self.model.ack_up_to(key, token, up_to)
        demand(answer.verdict == expected, f"{key} up to {up_to}: {answer.verdict} instead of {expected}")

    async def ack_each(self) -> None:
        key, token, seqs = self.known_lease()
        kinds: list[Status] = ["completed", "completed", "failed", "failed", "dlq", "retry"]
        chosen = self.rng.sample(seqs, min(self.rng.randint(1, len(seqs)), 10))
        pool: list[Status | None] = [None, *kinds]
        same = self.rng.choice(pool)
        items = {seq: self.rng.choice(kinds) if same is None else same for seq in sorted(chosen)}
        answers = await self.engine.ack(self.acks(key, token, items))
        expected = self.model.ack(key, token, items)
        verdicts = [answer.verdict for answer in answers]
        demand(verdicts == expected, f"{key} {items}: {verdicts} instead of {expected}")

    def acks(self, key: Key, token: UUID | None, items: dict[int, Status]) -> list[Ack]:
        partition = self.model.partitions[key[0]]
        return [
            Ack(
                partition_id=partition.id, transaction_id=partition.transactions.get(seq, "gone"), group=key[1],
                lease_id=token, status=status, error="e",
            )
            for seq, status in items.items()
        ]  # fmt: skip

    async def ack_loose(self) -> None:
        """Without a token: forward only, and nothing that a live lease holds is handed back."""
        key, _, seqs = self.known_lease()
        model, seq = self.model, self.rng.choice(seqs)
        status: Status = self.rng.choice(["completed", "failed", "retry"])
        cursor = model.cursors.get(key)
        if cursor is None or cursor.lease is None or not cursor.live(model.now):
            return
        held = [each for each in model.pending(key) if each <= cursor.lease.last]
        if seq in held[:-1]:
            await self.engine.ack(self.acks(key, None, {seq: status}))
            if status == "completed":
                model.advance(key, seq, completed=True)

    async def transact(self) -> None:
        """I9: a push and an ack, taken back together when the ack does not count."""
        to, (key, token, seqs) = self.rng.choice(PARTITIONS), self.known_lease()
        used = token if self.rng.random() < 0.6 else uuid4()
        items: dict[int, Status] = {seqs[-1]: "completed"}
        transaction = f"t{self.count}"
        self.count += 1
        new = NewMessage(queue=self.queue, partition=to, payload="{}", transaction_id=transaction)
        limit, (low, high) = self.model.options.max_queue_size, self.model.depth()
        try:
            await self.engine.transaction([new], self.acks(key, used, items))
        except QueueFull:
            demand(limit and high + 1 > limit, f"full with {high} of {limit}")
        except RolledBack:
            demand(set(self.model.ack(key, used, items)) - {"acked", "noop"}, "a good transaction was rolled back")
        else:
            demand(not limit or low + 1 <= limit, f"more than {limit} were taken")
            self.model.partition(to).store(transaction, self.model.now)
            demand(set(self.model.ack(key, used, items)) <= {"acked", "noop"}, "a transaction with a lost lease")

    async def release(self) -> None:
        delay, (_, token, _) = self.rng.choice([0, 3]), self.known_lease()
        (released,) = await self.engine.release([token], delay * 1000)
        demand(released == self.model.release(token, self.model.now + delay), f"{released} released")

    async def renew(self) -> None:
        _, token, _ = self.known_lease()
        (renewed,) = await self.engine.renew([token], LEASE)
        demand(renewed.renewed == self.model.renew(token, self.model.now + LEASE), f"{renewed.renewed} renewed")
