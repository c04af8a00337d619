"""What an analysis remembers between runs: how far it has read a lake, and what each day came to.

Both are in the database, beside what the analysis has written there: if one is restored, so is the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from queen.spark.database import Database
from queen.spark.lake.files import Reach, State
from queen.spark.pipelines.results import AT_ONCE, plain

T = TypeVar("T")
READ: Final = ("messages", "deliveries", "dead_letters", "redrives")
EVERYTHING: Final = ""
"""Stands for a day before every other."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How far a lake has been read, and by which rules."""

    reaches: dict[str, int] = {}
    options: dict[str, str] = {}
    unsettled: dict[str, str] = {}
    """By queue the day of the oldest batch that failed and was the last of its partition: the next one tells how much
    of it was finished."""


def reaches_of(state: State) -> dict[str, int]:
    """Up to where each table of a lake is complete."""

    def number(reach: Reach) -> int:
        return (reach.pos if reach.pos is not None else reach.until) or 0

    return {table: number(state.reaches[table]) for table in READ if table in state.reaches}


@dataclass(frozen=True)
class Memory:
    """What one analysis remembers of one lake."""

    database: Database
    lake: str
    pipeline: str

    def recall(self, name: str, kind: type[T]) -> T | None:
        """What was remembered under a name."""
        rows = self.database.rows("pipelines/read_state", lake=self.lake, analysis=name)
        return msgspec.json.decode(rows[0]["value"], type=kind) if rows else None

    def remember(self, name: str, value: object) -> None:
        """Remember this, and nothing else, under a name."""
        self.database.rows("pipelines/write_state", lake=self.lake, analysis=name, value=msgspec.to_builtins(value))

    def forget_days(self, kinds: Sequence[str], queues: Mapping[str, str | Iterable[str]]) -> None:
        """Forget what days came to: from a day on, or on single days."""
        scope = {
            queue: {"since": days or "-infinity"} if isinstance(days, str) else {"days": sorted(days)}
            for queue, days in queues.items()
        }
        if scope:
            ask = {"lake": self.lake, "pipeline": self.pipeline, "kinds": list(kinds), "queues": scope}
            self.database.rows("pipelines/forget_days", **ask)

    def keep_days(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep what days came to: rows of `queue`, `day`, `key` (whatever tells them apart) and `value`."""
        given = iter(rows)
        while chunk := list(islice(given, AT_ONCE)):
            ready = [
                {**row, "day": str(row["day"]), "key": short(row["key"]), "value": plain(row["value"])} for row in chunk
            ]
            self.database.rows("pipelines/write_days", lake=self.lake, pipeline=self.pipeline, kind=kind, rows=ready)

    def days(self, kind: str, *, by: str = "", each: int = 1_000_000, limit: int = 100_000) -> Iterator[dict[str, Any]]:
        """What single days came to, the greatest by a figure first, no more than `each` of the same key."""
        ask = {"lake": self.lake, "pipeline": self.pipeline, "kind": kind, "by": by, "each": each, "limit": limit}
        for row in self.database.rows("pipelines/read_days", **ask):
            yield json.loads(row["value"])

    def together(self, kind: str, *, by: str = "count", limit: int = 100_000) -> list[dict[str, Any]]:
        """What all days came to: sums, counts, and extremes, the greatest by a figure."""
        ask = {"lake": self.lake, "pipeline": self.pipeline, "kind": kind, "by": by, "limit": limit}
        rows = self.database.rows("pipelines/merge_days", **ask)
        parts = ("sums", "counts", "least", "most")
        return [{"queue": row["queue"], **{part: json.loads(row[part]) for part in parts}} for row in rows]


def short(key: object) -> str:
    """A key of any length as one that fits an index."""
    return hashlib.md5(json.dumps(key, default=str).encode(), usedforsecurity=False).hexdigest()
