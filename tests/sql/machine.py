"""Random work on one queue: clients, operators and services, step by step beside the model."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any, Literal

from queen.engine import Selection
from queen.engine.browse import Browser
from queen.errors import QueueFull
from queen.model import PopRequest
from tests.sql.clients import GROUPS, LEASE, PARTITIONS, Clients, at
from tests.sql.model import Key, Options, demand

# What may happen next, and how often. Those of LEASED need something that was handed out.
WEIGHTS = {
    "push": 10, "push_answered": 1, "push_many": 1, "schedule": 2, "pop": 14, "consume": 5, "ack_prefix": 7,
    "ack_each": 10, "ack_loose": 2, "transact": 3, "release": 2, "renew": 2, "wait": 9, "seek": 2, "redrive": 1,
    "bury": 2, "delete": 4, "purge": 1, "reconfigure": 2, "pause": 1, "forget": 1, "retention": 3, "eviction": 3,
    "deliver": 3, "hold": 4,
}  # fmt: skip
# These wait for whoever holds the queue, for as long as it takes.
ALONE = {"reconfigure", "pause", "forget", "redrive"}
LEASED = {"ack_prefix", "ack_each", "ack_loose", "transact", "release", "renew"}
CHOICES: dict[str, list[Any]] = {
    "retry_limit": [0, 1, 2], "retry_delay": [0, 5000], "max_deliveries": [0, 0, 1, 2, 3],
    "partial_failure": ["dlq", "retry"], "delayed_processing": [0, 0, 10], "window_buffer": [0, 0, 8],
    "retention_enabled": [True, False], "retention_seconds": [0, 0, 400], "completed_retention_seconds": [0, 300],
    "max_wait_time_seconds": [0, 0, 100], "max_queue_size": [0, 0, 0, 15, 40], "delivery_log": [True, False],
}  # fmt: skip


def draw_options(rng: random.Random) -> Options:
    return Options(lease_time=LEASE, **{name: rng.choice(values) for name, values in CHOICES.items()})


class Machine(Clients):
    """Every step is drawn from its own seed, so that steps can be left out and the rest stays the same."""

    async def start(self) -> None:
        await self.tick(0)
        await self.engine.queues.configure(self.queue, asdict(self.model.options))

    async def step(self, seed: int, weights: dict[str, int]) -> None:
        """One thing happens, chosen by weight, through one of the engines."""
        self.rng = random.Random(seed)
        self.engine = self.rng.choice(self.engines)
        names = [
            name for name in weights if (self.handed or name not in LEASED) and (self.held is None or name not in ALONE)
        ]
        (self.action,) = self.rng.choices(names, [weights[name] for name in names])
        await getattr(self, self.action)()
        await self.audit.check()
        if self.rng.random() < 0.2:
            await self.audit.check_totals()

    # Operators

    async def wait(self) -> None:
        await self.tick(self.rng.choice([1, 4, 11, 59, 61, 101, 301]))

    async def seek(self) -> None:
        model, group = self.model, self.rng.choice(GROUPS)
        held = self.held is not None  # it would wait for that
        to: Literal["start", "end", "time", "seq"] = self.rng.choice(["start", "start", "end", "time", "seq"])
        name = self.rng.choice(PARTITIONS if held else [None, *PARTITIONS])
        keys = [key for key in model.cursors if key[1] == group and name in (None, key[0])]
        time = model.now - self.rng.choice([1, 30, 200]) if to == "time" else None
        seq = self.rng.randint(0, 20) if to == "seq" else None
        await self.engine.queues.seek(
            self.queue, group, to, time=None if time is None else at(time), seq=seq, partition=name
        )
        for key in keys:
            partition = model.partitions[key[0]]
            first = min(partition.kept, default=partition.next)
            target = {
                "start": 0,
                "end": partition.next - 1,
                "time": max((s for s, created in partition.kept.items() if created <= (time or 0)), default=first - 1),
                "seq": min(seq or 0, partition.next - 1),
            }[to]
            model.seek(key, target)

    async def redrive(self) -> None:
        group = self.rng.choice(GROUPS)
        waiting = [
            (key, letter)
            for key, letters in self.model.dead.items()
            for letter in letters
            if key[1] == group and not letter.redriven
        ]
        to_all = self.rng.choice([False, True])
        if group not in self.model.groups and not to_all:
            waiting = []
        try:
            done = await self.engine.dead_letters.redrive(
                Selection(queue=self.queue, group=group), limit=10_000, to_all=to_all
            )
        except QueueFull:
            limit, (_, high) = self.model.options.max_queue_size, self.model.depth()
            demand(limit and high + len(waiting) > limit, f"full with {high} of {limit}, {len(waiting)} to redrive")
            return
        demand(done.redriven == len(waiting), f"{done.redriven} of {len(waiting)} dead letters were redriven")
        for _, letter in waiting:
            letter.redriven = True
        before = {name: partition.next for name, partition in self.model.partitions.items()}
        await self.audit.adopt()
        grown = {name: range(before[name], partition.next) for name, partition in self.model.partitions.items()}
        for (name, owner), cursor in self.model.cursors.items():
            if owner != group and not to_all:
                cursor.buried.update(grown[name])
        await self.audit.check()
        new = sum(map(len, grown.values()))
        demand(new == len(waiting), f"{new} messages for {len(waiting)} dead letters")

    def some_message(self) -> tuple[str, int] | None:
        name = self.rng.choice(PARTITIONS)
        kept = list(self.model.partitions[name].kept) if name in self.model.partitions else []
        return (name, self.rng.choice([*kept[:3], *kept[-3:], *kept])) if kept else None

    async def bury(self) -> None:
        model, group, some = self.model, self.rng.choice(GROUPS), self.some_message()
        if some is None or group not in model.groups:
            return
        name, seq = some
        partition, cursor = model.partitions[name], model.cursors[name, group]
        await Browser(self.engine.database, self.engine.keys, self.engine.wake).bury(
            partition.id, partition.transactions[seq], group=group, error="by hand"
        )
        if all(letter.redriven for letter in model.dead.get((name, group, seq), [])) and seq not in cursor.buried:
            model.expected[name, group, seq] += 1
            if seq in model.pending((name, group)):
                cursor.buried.add(seq)

    async def delete(self) -> None:
        if some := self.some_message():
            name, seq = some
            partition = self.model.partitions[name]
            demand(await self.engine.delete_message(partition.id, partition.transactions[seq]), "nothing to delete")
            self.model.delete(name, seq)

    async def purge(self) -> None:
        group = self.rng.choice(GROUPS)
        keys = [key for key in self.model.dead if key[1] == group]
        purged = await self.engine.dead_letters.purge(Selection(queue=self.queue, group=group))
        demand(purged == sum(len(self.model.dead.pop(key)) for key in keys), f"{purged} dead letters purged")

    async def reconfigure(self) -> None:
        name = self.rng.choice(sorted(CHOICES))
        value = self.rng.choice(CHOICES[name])
        await self.engine.queues.configure(self.queue, {name: value})
        setattr(self.model.options, name, value)

    async def pause(self) -> None:
        self.model.options.paused = self.rng.choice([False, False, False, True])
        await self.engine.queues.configure(self.queue, {"paused": self.model.options.paused})

    async def forget(self) -> None:
        group = self.rng.choice(GROUPS)
        await self.engine.queues.forget_group(group, self.queue)
        self.model.forget(group)

    # Services

    async def retention(self) -> None:
        if self.held is None:
            self.model.settling.clear()
        while (await self.rng.choice(self.jobs).retention())["removed"]:
            await self.audit.check()
        await self.audit.check()
        for name, partition in self.model.partitions.items():
            left = [seq for seq in partition.kept if self.model.must_remove(name, seq)]
            demand(not left, f"retention left {left} in {name}")

    async def eviction(self) -> None:
        while (await self.rng.choice(self.jobs).eviction())["evicted"]:
            await self.audit.check()
        await self.audit.check()
        for key, cursor in self.model.cursors.items():
            if not cursor.live(self.model.now) and key not in self.model.unsettled:
                left = [seq for seq in self.model.pending(key) if self.must_evict(key, seq)]
                demand(not left, f"eviction left {left} in {key}")

    def must_evict(self, key: Key, seq: int) -> bool:
        options, created = self.model.options, self.model.partitions[key[0]].kept[seq]
        return options.overdue(created, self.model.now) and not options.overdue(created, self.model.groups[key[1]])

    async def deliver(self) -> None:
        model = self.model
        while (await self.rng.choice(self.jobs).scheduled())["delivered"]:
            pass
        before = {name: partition.next for name, partition in model.partitions.items()}
        await self.audit.check(grown=True)
        due = sorted((s for s in model.scheduled if s.due <= model.now), key=lambda s: s.due)
        _, high = model.depth()
        for name, partition in model.partitions.items():
            new = [partition.transactions[seq] for seq in range(before[name], partition.next)]
            wanted = [s.transaction for s in due if s.partition == name]
            demand(wanted[: len(new)] == new, f"{new} were delivered to {name}, not {wanted}")
            limit = model.options.max_queue_size
            demand(len(new) == len(wanted) or (limit and high + 1 > limit), f"{wanted[len(new) :]} are due in {name}")
            model.scheduled = [s for s in model.scheduled if s.partition != name or s.transaction not in new]

    # The end

    async def finish(self) -> None:
        """Everything that waits comes to every group: nothing is lost."""
        await self.end_held(commit=True)
        last = {"paused": False, "max_wait_time_seconds": 0, "retention_enabled": False, "max_deliveries": 0}
        await self.engine.queues.configure(self.queue, last)
        for name, value in last.items():
            setattr(self.model.options, name, value)
        await self.tick(100)
        for group in list(self.model.groups):
            for _ in range(10_000):
                if not await self.drain(group):
                    break
                await self.audit.check()
            left = {key: self.model.pending(key) for key in self.model.cursors if key[1] == group}
            demand(not any(left.values()), f"what waits never came: {left}")
        await self.audit.check_totals()

    async def drain(self, group: str) -> bool:
        waiting = sum(len(self.model.pending(key)) for key in self.model.cursors if key[1] == group)
        found = await self.engine.pop(
            PopRequest(queue=self.queue, group=group, batch=1000, partitions=10, lease_seconds=LEASE, auto_ack=True)
        )
        await self.receive(group, found, 1000, alone=False, auto=True)
        left = sum(len(self.model.pending(key)) for key in self.model.cursors if key[1] == group)
        return left < waiting
