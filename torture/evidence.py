"""Everything that is known after a run: what clients wrote down, and what the database saw, brought together."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

from torture.damage import parked
from torture.history import Note, read
from torture.plan import Plan, QueuePlan
from torture.rack import KEY, SQL

UNTOLD = 60.0
Lane = tuple[int, str]


class Stored(NamedTuple):
    """A message in its partition."""

    seq: int
    name: str
    id: str
    at: float


class Grant(NamedTuple):
    """A lease as the database gave it."""

    lease: str
    first: int
    last: int
    counted_to: int
    retries: int
    deliveries: int
    at: float
    live: str | None  # the lease it replaced while that was live


class Step(NamedTuple):
    """A cursor that moved."""

    was: int
    to: int
    at: float


class Batch(NamedTuple):
    """What a client was handed of one partition under one lease."""

    asked: float
    at: float
    lane: Lane
    lease: str
    names: list[str]
    lease_seconds: int | None
    prefetch: bool
    source: str


class Told(NamedTuple):
    """An outcome that a client told of one message, and the answer; None when there was none."""

    at: float
    answered: float | None
    lane: Lane
    lease: str
    name: str
    status: str
    verdict: str | None
    company: frozenset[str]


class Evidence:
    """Notes and rows, by what they are about."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.queues: dict[str, QueuePlan] = {queue.name: queue for queue in plan.queues}
        self.accepted: dict[tuple[str, str, str], float] = {}
        self.spans: dict[str, tuple[float, float]] = {}
        self.produced: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self.batches: list[Batch] = []
        self.tellings: list[Told] = []
        self.released: set[str] = set()
        self.given: set[tuple[str, str, str, str]] = set()
        self.seeks: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
        self.excused: set[str] = set()
        self.started: set[str] = set()
        self.outbox: set[str] = set()
        self.acts: list[Note] = []
        self.places: dict[int, tuple[str, str]] = {}
        self.lanes_of: dict[tuple[str, str], int] = {}
        self.stored: dict[int, dict[int, Stored]] = defaultdict(dict)
        self.seq_of: dict[tuple[int, str], list[int]] = defaultdict(list)
        self.grants: dict[Lane, list[Grant]] = defaultdict(list)
        self.steps: dict[Lane, list[Step]] = defaultdict(list)
        self.letters: list[asyncpg.Record] = []
        self.owner_of: dict[str, str] = {}
        self.committed: set[str] = set()
        for broker in plan.brokers:
            self.excused.update(parked(folder / f"data-{broker}" / "buffer", KEY))

    async def load(self, dsn: str, folder: Path) -> None:
        """Read the database first, since notes refer to it."""
        connection = await asyncpg.connect(dsn, timeout=10)
        try:
            rows = {name: await connection.fetch((SQL / f"{name}.sql").read_text())
                    for name in ("places", "stored", "steps", "letters", "outbox")}  # fmt: skip
        finally:
            await connection.close()
        for row in rows["places"]:
            self.places[row["id"]] = (row["queue"], row["partition"])
            self.lanes_of[row["queue"], row["partition"]] = row["id"]
        for row in rows["stored"]:
            self.stored[row["partition_id"]][row["seq"]] = Stored(row["seq"], row["name"], row["id"], row["at"])
            self.seq_of[row["partition_id"], row["name"]].append(row["seq"])
        self._follow(rows["steps"])
        self.letters = rows["letters"]
        self.owner_of = {row["redriven_as"]: row["consumer_group"] for row in self.letters if row["redriven_as"]}
        self.committed = {row["name"] for row in rows["outbox"]}
        self._read_notes(folder)

    def _follow(self, rows: list[asyncpg.Record]) -> None:
        for row in rows:
            lane = (row["partition_id"], row["consumer_group"])
            was, lease = row["lease_was"], row["lease_is"]
            if lease is not None and lease != was:
                live = was if was is not None and not row["expired"] else None
                self.grants[lane].append(
                    Grant(lease, row["batch_from"], row["batch_to"], row["counted_to"] or 0, row["retry_count"],
                          row["delivery_count"], row["at"], live)
                )  # fmt: skip
            elif lease is not None and self.grants[lane]:  # the same lease, its batch cut to what fits
                self.grants[lane][-1] = self.grants[lane][-1]._replace(last=row["batch_to"])
            if row["cursor_was"] != row["cursor_is"]:
                self.steps[lane].append(Step(row["cursor_was"], row["cursor_is"], row["at"]))

    def _read_notes(self, folder: Path) -> None:
        calls: dict[tuple[str, int], Note] = {}
        asked: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for note in read(folder):
            if note.kind in ("push", "tell"):
                calls[note.source, note.fields[0]] = note
                self._note_push(note)
            elif note.kind in ("pushed", "refused", "told"):
                self._note_answer(calls.pop((note.source, note.fields[0])), note)
            elif note.kind in ("seek", "sought"):
                self._note_seek(note, asked)
            else:
                self._note_other(note)
        for place, times in asked.items():
            self.seeks[place] += [(at, at + UNTOLD) for at in times]
        for note in calls.values():
            if note.kind == "tell":
                self._note_told(note, None)

    def _note_seek(self, note: Note, asked: dict[tuple[str, str, str], list[float]]) -> None:
        queue, group, partition = note.fields[:3]
        if note.kind == "seek":
            asked[queue, group, partition].append(note.at)
        else:
            self.seeks[queue, group, partition].append((asked[queue, group, partition].pop(), note.at))

    def _note_push(self, note: Note) -> None:
        for _, _, name, _ in () if note.kind == "tell" else note.fields[1]:
            self.spans[name] = (self.spans.get(name, (note.at, 0.0))[0], note.at)

    def _note_answer(self, call: Note, answer: Note) -> None:
        if call.kind == "tell":
            self._note_told(call, answer)
            return
        for queue, partition, name, _ in call.fields[1]:
            self.spans[name] = (self.spans[name][0], answer.at)
            if answer.kind == "pushed":
                self.accepted.setdefault((queue, partition, name), answer.at)

    def _note_told(self, call: Note, answer: Note | None) -> None:
        entries: list[list[Any]] = call.fields[1]
        verdicts = answer.fields[1] if answer is not None else [None] * len(entries)
        by_lane: dict[Lane, set[str]] = defaultdict(set)
        for partition, group, _, _, status in entries:
            by_lane[partition, group].add(status)
        for (partition, group, lease, name, status), verdict in zip(entries, verdicts, strict=True):
            lane = (partition, group)
            company = frozenset(by_lane[lane])
            answered = answer.at if answer is not None else None
            self.tellings.append(Told(call.at, answered, lane, lease, name, status, verdict, company))

    def _note_popped(self, note: Note) -> None:
        asked, group, seconds, prefetch, batches = note.fields
        for queue, partition, lease, messages in batches:
            lane = (self.lanes_of[queue, partition], group)
            names = [name for name, _ in messages]
            self.batches.append(Batch(asked, note.at, lane, lease, names, seconds, prefetch, note.source))

    def _note_other(self, note: Note) -> None:
        match note.kind:
            case "popped":
                self._note_popped(note)
            case "produce":
                producer, queue, partition, names, later = note.fields
                if not later:
                    self.produced[producer, queue, partition] += names
            case "given":
                self.given.add(tuple(note.fields))
            case "release":
                self.released.update(note.fields[0])
            case "damaged":
                self.excused.update(note.fields[0])
            case "started":
                self.started.add(note.fields[0])
            case "outbox":
                self.outbox.add(note.fields[0])
            case "act":
                self.acts.append(note)

    def sought(self, lane: Lane, start: float, end: float) -> bool:
        """Whether a seek of this lane may have happened between two times."""
        queue, partition = self.places[lane[0]]
        return any(begun <= end and start <= done for begun, done in self.seeks.get((queue, lane[1], partition), ()))

    def is_for(self, lane: Lane, message: Stored) -> bool:
        """Whether a message is for this group: one that was redriven is only for the group that had failed."""
        return self.owner_of.get(message.id, lane[1]) == lane[1]
