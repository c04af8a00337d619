"""What a task of the archive does: read its share from PostgreSQL, write Parquet files, and tell what it wrote.

The rows go from the driver's Arrow to the file without passing through the JVM. Files are named by chance:
an attempt that fails or is repeated leaves files that nobody names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queen.spark.columns import MESSAGES as MESSAGE_COLUMNS
from queen.spark.database import Database
from queen.spark.errors import plainly
from queen.spark.lake.directory import home
from queen.spark.lake.durably import room_for
from queen.spark.lake.manifest import File
from queen.spark.lake.tables import GROUPS, MESSAGES, REPEATED, TIMES, arrow_schema
from queen.spark.planning import Slice
from queen.spark.reading import require_same, tables
from queen.spark.tables import Span, ask_for

FLUSH = 64 << 20
"""A task holds about so many bytes before it writes them out."""
EPOCH = 1 << 31
STATEMENTS = {"deliveries": "table_deliveries", "dead_letters": "table_dead_letters"}


@dataclass(frozen=True)
class Share:
    """What one task archives."""

    url: str
    table: str
    staging: str
    part: Slice | Span
    lenient: bool = False


def write_share(share: Share) -> Iterator[File]:
    """Write the rows of a share into files of the staging directory."""
    with plainly():
        database = Database(share.url)
        try:
            yield from write_pages(share.table, read_pages(share, database), Path(share.staging))
        finally:
            database.close()


def read_pages(share: Share, database: Database) -> Iterator[pa.Table]:
    """The rows of a share as they are stored: what is encrypted stays so."""
    part = share.part
    if isinstance(part, Span):
        name = STATEMENTS.get(share.table, f"lake/rows_{share.table}")
        yield database.table(name, **ask_for(part))
        return
    require_same(database, part)
    ask = {"columns": MESSAGE_COLUMNS.names, "queues": part.queues, "removed": part.position.removed}
    yield from tables(database, part, ask | {"lenient": share.lenient}, "lake/lost", fail=True)


def write_pages(table: str, given: Iterator[pa.Table], staging: Path) -> Iterator[File]:
    """Rows into files, one for each name and day, or several when there is much."""
    schema = arrow_schema(table)
    held: list[pa.Table] = []
    for page in given:
        held.append(shaped(page, schema))
        if sum(each.nbytes for each in held) >= FLUSH:
            yield from write_rows(table, pa.concat_tables(held), staging)
            held = []
    if held:
        yield from write_rows(table, pa.concat_tables(held), staging)


def shaped(page: pa.Table, schema: pa.Schema) -> pa.Table:
    """A page with the columns of the lake, in their order."""
    if "sealed" in page.column_names:
        page = page.rename_columns(["is_encrypted" if name == "sealed" else name for name in page.column_names])
    return page.select(schema.names).cast(schema)


def write_rows(table: str, rows: pa.Table, staging: Path) -> Iterator[File]:
    """Rows into one file for each name and day; within a file they keep their order."""
    for group, date, part in filed(table, rows):
        yield write_file(table, part, group, date, staging)


def filed(table: str, rows: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
    """Rows by the name and day they are filed under."""
    if not rows.num_rows:
        return
    names = pc.fill_null(rows.column(GROUPS[table]), "").combine_chunks().dictionary_encode()
    days = rows.column(TIMES[table]).cast(pa.date32()).combine_chunks().cast(pa.int32()).to_numpy()
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


def write_file(table: str, rows: pa.Table, group: str, date: str, staging: Path) -> File:
    """One Parquet file, on the disk when this returns."""
    data = encoded(rows)
    name = uuid4().hex
    path = staging / f"{name}.parquet"
    with room_for(path), path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    low, high = extent(rows) if table == MESSAGES else (0, 0)
    sealed = pc.sum(rows.column("is_encrypted")).as_py() or 0 if "is_encrypted" in rows.column_names else 0
    return File(
        path=home(table, name, group, date),
        table=table,
        group=group,
        date=date,
        rows=rows.num_rows,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        low=low,
        high=high,
        sealed=sealed,
    )


def encoded(rows: pa.Table) -> pa.Buffer:
    """Rows as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    repeated: Sequence[str] = [name for name in rows.column_names if name in REPEATED]
    pq.write_table(rows, sink, compression="zstd", compression_level=1, use_dictionary=repeated)
    return sink.getvalue()


def extent(rows: pa.Table) -> tuple[int, int]:
    """The first and the last pos."""
    found = pc.min_max(rows.column("pos")).as_py()
    return int(found["min"]), int(found["max"])
