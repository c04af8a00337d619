"""Rows into Parquet files of a table, one for each name and day until it is large enough, and what to tell of them.

Files are named by their content: an attempt that is repeated writes the same file or another one, and what no
commit names is not read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queen.spark.errors import plainly
from queen.spark.lake.files import DIGITS, SEALED, File
from queen.spark.lake.places import Place
from queen.spark.lake.tables import GROUPS, REPEATED, TIMES, delta_schema

TARGET: Final = 128 << 20
FLUSH: Final = 32 << 20
"""Rows are put into their files when there are about so many bytes of them."""
EPOCH: Final = 1 << 31
COUNTED: Final = ("pos", "seq", "partition_id")


@dataclass
class Growing:
    """A file that is not written yet, compressed in memory."""

    schema: pa.Schema
    group: str | None
    date: str
    rows: int = 0
    sealed: bool = False
    bounds: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sink = pa.BufferOutputStream()
        repeated: Sequence[str] = [name for name in self.schema.names if name in REPEATED]
        self.writer = pq.ParquetWriter(
            self.sink, self.schema, compression="zstd", compression_level=1, use_dictionary=repeated
        )

    @property
    def size(self) -> int:
        """How large it is so far."""
        return int(self.sink.tell())

    def take(self, rows: pa.Table, time: str) -> None:
        """More rows, in their order."""
        self.writer.write_table(rows)
        self.rows += rows.num_rows
        for name in (*(name for name in COUNTED if name in rows.column_names), time):
            found = pc.min_max(rows.column(name)).as_py()
            low, high = self.bounds.get(name, (found["min"], found["max"]))
            self.bounds[name] = min(low, found["min"]), max(high, found["max"])
        if "is_encrypted" in rows.column_names:
            self.sealed = self.sealed or bool(pc.any(rows.column("is_encrypted")).as_py())

    def end(self, place: Place, table: str) -> File:
        """Write it."""
        self.writer.close()
        data = self.sink.getvalue()
        name = hashlib.sha256(data).hexdigest()[:DIGITS] + (SEALED if self.sealed else ".parquet")
        path = f"{self.date}/{name}"
        place.put(path, data)
        low, high = self.bounds.get("pos", (0, 0))
        return File(
            path=path, table=table, group=self.group, date=self.date, rows=self.rows, bytes=len(data), low=low,
            high=high, stats=self.stats(),
        )  # fmt: skip

    def stats(self) -> str:
        """What readers may go by to leave the file out."""
        least = {name: floor(low) for name, (low, _) in self.bounds.items()}
        most = {name: ceiling(high) for name, (_, high) in self.bounds.items()}
        nulls = dict.fromkeys(self.bounds, 0)
        return json.dumps({"numRecords": self.rows, "minValues": least, "maxValues": most, "nullCount": nulls})


class Filer:
    """Puts rows of a table into files."""

    def __init__(self, place: Place, table: str, target: int = TARGET) -> None:
        self._place = place
        self._table = table
        self._target = target
        self._schema = delta_schema(table)
        self._held: list[pa.Table] = []
        self._growing: dict[tuple[str | None, str], Growing] = {}

    def take(self, rows: pa.Table) -> Iterator[File]:
        """More rows; the files that are large enough now."""
        if rows.num_rows:
            self._held.append(shaped(rows, self._schema, TIMES[self._table]))
        if sum(each.nbytes for each in self._held) >= FLUSH:
            yield from self._flush()

    def end(self) -> Iterator[File]:
        """The files that are left."""
        yield from self._flush()
        while self._growing:
            yield self._end(next(iter(self._growing)))

    def _flush(self) -> Iterator[File]:
        held, self._held = self._held, []
        for group, date, rows in filed(self._table, pa.concat_tables(held)) if held else ():
            growing = self._growing.setdefault((group, date), Growing(self._schema, group, date))
            growing.take(rows, TIMES[self._table])
            if growing.size >= self._target:
                yield self._end((group, date))
        while sum(each.size for each in self._growing.values()) > self._target:
            yield self._end(max(self._growing, key=lambda key: self._growing[key].size))

    def _end(self, key: tuple[str | None, str]) -> File:
        return self._growing.pop(key).end(self._place, self._table)


def write_batches(place: Place, table: str, target: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: write what comes, and tell of the files."""
    with plainly():
        filer = Filer(place, table, target)
        told = [file for batch in batches for file in filer.take(pa.Table.from_batches([batch]))]
        yield told_of([*told, *filer.end()])


def told_of(files: Sequence[File]) -> pa.RecordBatch:
    """Files as rows."""
    texts = pa.array([msgspec.json.encode(file).decode() for file in files], pa.string())
    return pa.RecordBatch.from_arrays([texts], names=["file"])


def shaped(page: pa.Table, schema: pa.Schema, time: str) -> pa.Table:
    """A page with the columns of the lake, in their order; the day too, which some readers look for in the files."""
    if "sealed" in page.column_names:
        page = page.rename_columns(["is_encrypted" if name == "sealed" else name for name in page.column_names])
    page = page.append_column("date", page.column(time).cast(pa.date32()))
    return page.select(schema.names).cast(schema)


def filed(table: str, rows: pa.Table) -> Iterator[tuple[str | None, str, pa.Table]]:
    """Rows by the name and day they are filed under."""
    names = rows.column(GROUPS[table]).combine_chunks().dictionary_encode("encode")
    days = rows.column("date").combine_chunks().cast(pa.int32()).to_numpy()
    codes = (np.asarray(names.indices.to_numpy(), np.int64) << 32) + (np.asarray(days, np.int64) + EPOCH)
    found = np.unique(codes)
    if len(found) > 1:
        order = np.argsort(codes, kind="stable")
        rows, codes = rows.take(pa.array(order)), codes[order]
    edges = [*np.searchsorted(codes, found), len(codes)] if len(found) > 1 else [0, len(codes)]
    for place, code in enumerate(found):
        date = str(np.datetime64((int(code) & 0xFFFFFFFF) - EPOCH, "D"))
        part = rows.slice(int(edges[place]), int(edges[place + 1] - edges[place]))
        yield names.dictionary[int(code) >> 32].as_py(), date, part


def floor(value: Any) -> Any:
    """A bound as the log keeps it, not above the value: times have milliseconds there."""
    return isoformat(value) if isinstance(value, datetime) else value


def ceiling(value: Any) -> Any:
    """A bound as the log keeps it, not below the value."""
    return (
        isoformat(value + timedelta(microseconds=-value.microsecond % 1000)) if isinstance(value, datetime) else value
    )


def isoformat(time: datetime) -> str:
    """A time as Delta writes it."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
