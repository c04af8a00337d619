"""The files of a lake as its log names them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from queen.spark.lake.tables import GROUPS, MESSAGES, TIMES

SEALED: Final = ".sealed.parquet"
"""Ends the name of a file with payloads that are encrypted. Names begin with the SHA-256 of the file, cut short."""
DIGITS: Final = 32
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TICK: Final = timedelta(microseconds=1)


class File(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Parquet file: where it is below its table, and what is in it."""

    path: str
    table: str
    group: str | None
    date: str
    rows: int
    bytes: int
    low: int = 0
    high: int = 0
    """The least and greatest `pos` in it; of tables read by time the bounds of that, in microseconds since 1970."""
    stats: str = ""
    """As the log keeps them; empty once they have been read from there."""

    @property
    def sealed(self) -> bool:
        """Whether payloads in it are encrypted."""
        return self.path.endswith(SEALED)

    def fits(self, digest: str) -> bool:
        """Whether a file with this SHA-256 is the one that was written."""
        return self.path.rpartition("/")[2].startswith(digest[:DIGITS])

    def added(self, *, new: bool) -> AddAction:
        """The action by which it counts from now on; `new`: it brings rows that were not there before."""
        values = {GROUPS[self.table]: self.group, "date": self.date}
        return AddAction(self.path, self.bytes, values, now_ms(), new, self.stats)

    def removed(self) -> RemoveAction:
        """The action by which it no longer counts, because another holds its rows."""
        return RemoveAction(self.path, data_change=False, deletion_timestamp=now_ms())


@dataclass(frozen=True, slots=True)
class Reach:
    """Up to where a table is complete: every `pos` below, or every time before (microseconds since 1970)."""

    pos: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class State:
    """A lake as of one moment."""

    tables: Mapping[str, list[File]] = field(default_factory=dict)
    reaches: Mapping[str, Reach] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)

    @property
    def files(self) -> list[File]:
        """Every file."""
        return [file for files in self.tables.values() for file in files]

    def of(self, table: str) -> list[File]:
        """The files of a table."""
        return self.tables.get(table, [])


def listed(table: str, log: DeltaTable) -> Iterator[File]:
    """The files a log names."""
    group = f"partition.{GROUPS[table]}"
    bounded = "pos" if table == MESSAGES else TIMES[table]
    named = {"path", "size_bytes", "num_records", f"min.{bounded}", f"max.{bounded}", "partition.date", group}
    actions = pa.table(log.get_add_actions(flatten=True))
    found: list[dict[str, Any]] = actions.select([name for name in actions.column_names if name in named]).to_pylist()
    for each in found:
        yield File(
            path=each["path"],
            table=table,
            group=each[group],
            date=each["partition.date"].isoformat(),
            rows=each["num_records"],
            bytes=each["size_bytes"],
            low=as_number(each.get(f"min.{bounded}")),
            high=as_number(each.get(f"max.{bounded}")),
        )


def as_number(bound: Any) -> int:
    """A bound of a column as a number."""
    return (bound - EPOCH) // TICK if isinstance(bound, datetime) else int(bound or 0)


def now_ms() -> int:
    """The time in milliseconds."""
    return time.time_ns() // 1_000_000
