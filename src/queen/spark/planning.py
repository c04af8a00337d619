"""What to read next: which queues, from where to where, cut into how many tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.offsets import Position
from queen.spark.options import EARLIEST, LATEST, SourceOptions
from queen.spark.takeover import arrived, commits_lost, preceded

SPARSE = 8
"""Read partition by partition when fewer than one position in this many belongs to the queues."""

FIRST_SEQ = 1
"""Seqs count from here; offsets of Kafka count from 0, which therefore means the same."""

Lane = tuple[int, int, int]
"""A partition and the range of its seqs to read: from, to (exclusive)."""


class Slice(InputPartition):
    """What one task reads: a range of positions, or ranges of seqs of some partitions."""

    def __init__(
        self,
        queues: Sequence[int],
        position: Position,
        high: int = 0,
        lanes: Sequence[Lane] = (),
    ) -> None:
        self.queues = list(queues)
        self.position = position
        self.high = high
        self.lanes = list(lanes)

    @property
    def end(self) -> int:
        """The position up to which this was planned: whoever reads it must have come as far."""
        return max(self.high, self.position.pos)


@dataclass(frozen=True, slots=True)
class Extent:
    """Where the messages of some queues lie."""

    low: int
    high: int
    rows: int

    @property
    def sparse(self) -> bool:
        """Whether most positions between the first and the last message belong to other queues."""
        return self.rows * SPARSE < self.high - self.low


class Planner:
    """Asks the database what there is to read."""

    def __init__(self, options: SourceOptions, database: Database) -> None:
        self.options = options
        self.database = database

    def here(self) -> Position:
        """The commit horizon: everything below it is committed, and nothing will ever appear there."""
        found = self.database.row("where_we_are")
        return Position(found["pos"], found["database"], found["removed"])

    def accept(self, position: Position, here: Position) -> Position:
        """The position as one of this server; that of a server it took over from only if that was asked for."""
        if not self.options.adopt or not preceded(position.database, here.database):
            position.require_valid(here)
            return position
        known = arrived(self.database, position.database)
        if position.pos > known:
            raise commits_lost("the checkpoint", known, position.pos, "; start with a new checkpoint")
        return replace(position, database=here.database)

    def explicit(self, given: Any, here: Position) -> Position:
        """A position a user wrote: with what identifies the database, or the bare number."""
        named = Position(int(given["pos"]), str(given.get("database", here.database)), int(given.get("removed", 0)))
        return self.accept(named, here)

    def queues(self) -> list[int]:
        """The ids of the queues asked for; at least one."""
        options = self.options
        ask = {"names": list(options.queues) or None, "pattern": options.pattern, "namespace": options.namespace}
        found = self.database.rows("queues", **{key: value for key, value in ask.items() if value is not None})
        missing = set(options.queues) - {row["name"] for row in found}
        if missing:
            raise SparkError("QUEUE_NOT_FOUND", f"there is no queue {min(missing)!r}")
        if not found and not options.pattern and not options.namespace and not options.archive:
            raise SparkError("QUEUE_NOT_FOUND", "there is no queue at all yet")
        return [row["id"] for row in found]

    def _start_by_seqs(self, queues: Sequence[int], here: Position) -> Position:
        """Where the seqs in startingOffsets lie, settled once: `latest` would be later at every batch."""
        seqs = self.options.starting.seqs or {}
        named = [row for row in self._partitions(queues) if row["name"] in seqs.get(row["queue"], ())]
        starts = {str(row["id"]): lane[1] for row in named if (lane := self._lane(row)) is not None}
        found = self.database.row("position_of_seqs", queues=list(queues), starts=starts)
        ahead = any(starts[str(row["id"])] > row["next_seq"] for row in named)
        low = here.pos if found["pos"] is None else min(found["pos"], here.pos)
        return replace(here, starts=starts, settled=None if ahead else found["settled"]).moved(low)

    def start(self, queues: Sequence[int], here: Position) -> Position:
        """Where startingOffsets or startingTimestamp lies."""
        options = self.options
        given = options.starting.position
        if given is not None:
            return self.explicit(given, here)
        pos: int | None = here.pos
        if options.since is not None:
            pos = self.database.row("position_at", queues=list(queues), time=options.since.isoformat())["pos"]
        elif options.starting.seqs is not None:
            return self._start_by_seqs(queues, here)
        elif options.starting.word == "group":
            pos = self.database.row("position_of_group", queues=list(queues), group=options.group)["pos"]
        elif options.starting.word == "earliest":
            pos = self.extent(queues, here).low
        low = here.pos if pos is None else min(pos, here.pos)
        return Position(low, here.database, here.removed)

    def extent(self, queues: Sequence[int], here: Position) -> Extent:
        """Where the messages of the queues lie, below the horizon."""
        found = self.database.row("extent", queues=list(queues), to=here.pos)
        return Extent(min(found["low"], here.pos), min(found["high"], here.pos), found["rows"])

    def reach(self, queues: Sequence[int], low: int, high: int, rows: int | None) -> tuple[int | None, int]:
        """The first message in the range, if any, and how far at most `rows` messages go."""
        if low >= high:
            return None, high
        found = self.database.row("reach", queues=list(queues), **{"from": low, "to": high, "rows": rows})
        return found["first"], found["reach"] if found["first"] is not None else high

    def count(self, queues: Sequence[int], low: int, high: int, most: int) -> int:
        """How many messages lie in the range, counted up to `most`."""
        ask = {"from": low, "to": high, "most": most}
        number: int = self.database.row("count", queues=list(queues), **ask)["n"] if low < high else 0
        return number

    def lanes(self, queues: Sequence[int], fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[Lane]:
        """The partitions to read with their seqs, as startingOffsets, endingOffsets and assign say."""
        found = self._partitions(queues)
        return [lane for row in found if fits(row) and (lane := self._lane(row)) is not None]

    def _partitions(self, queues: Sequence[int]) -> list[dict[str, Any]]:
        found = self.database.rows("partitions", queues=list(queues))
        options, present = self.options, {(row["queue"], row["name"]) for row in found}
        named = [(queue, name) for queue, names in (options.assign or {}).items() for name in names]
        seqs = {**(options.starting.seqs or {}), **(options.ending.seqs or {})}
        named += [(queue, name) for queue, lanes in seqs.items() for name, seq in lanes.items() if seq > FIRST_SEQ]
        for queue, name in named:
            if (queue, name) not in present:
                raise SparkError("PARTITION_NOT_FOUND", f"queue {queue!r} has no partition {name!r}")
        return found

    def _lane(self, row: dict[str, Any]) -> Lane | None:
        options, first, end = self.options, row["first_seq"], row["next_seq"]
        if options.assign is not None and row["name"] not in options.assign.get(row["queue"], ()):
            return None
        low, high = first, end
        given = (options.starting.seqs or {}).get(row["queue"], {}).get(row["name"], EARLIEST)
        if given == LATEST or (options.starting.word == "latest" and options.starting.seqs is None):
            low = end
        elif given >= 0:
            low = max(given, FIRST_SEQ)
        ending = (options.ending.seqs or {}).get(row["queue"], {}).get(row["name"], LATEST)
        if ending >= 0:
            high = min(ending, end)
        if low < first and options.fail_on_data_loss and low < high:
            raise lost(row["queue"], row["name"], first)
        return row["id"], max(low, first), high


def lost(queue: str, partition: str, first: int) -> SparkError:
    """Messages are gone that were to be read."""
    return SparkError(
        "DATA_LOST",
        f"messages of queue {queue!r}, partition {partition!r} were removed before they were read (its first is "
        f"now seq {first}); set failOnDataLoss=false to go on without them",
        {"queue": queue, "partition": partition, "first_seq": first},
    )


def cut(low: int, high: int, rows_per_task: int, least: int) -> Iterator[tuple[int, int]]:
    """A range of positions in about equal parts, none larger than a task may be."""
    size = high - low
    parts = min(max(-(-size // rows_per_task), least), size)
    for part in range(parts):
        yield low + size * part // parts, low + size * (part + 1) // parts


def pack(lanes: Sequence[Lane], rows_per_task: int, least: int) -> Iterator[list[Lane]]:
    """Partitions in about equal parts: large ones are cut, small ones share a task."""
    total = sum(high - low for _, low, high in lanes if high > low)
    limit = max(min(rows_per_task, -(-total // least)), 1)
    packed: list[Lane] = []
    room = limit
    for lane, first, end in lanes:
        low = first
        while low < end:
            high = min(end, low + room)
            packed.append((lane, low, high))
            room -= high - low
            low = high
            if room == 0:
                yield packed
                packed, room = [], limit
    if packed:
        yield packed
