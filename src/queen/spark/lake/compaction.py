"""Many small files into few large ones, a name and day at a time; readers see the old ones or the new ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from queen.spark.lake.delta import require_delta, write_delta
from queen.spark.lake.directory import Lake
from queen.spark.lake.manifest import Commit, File
from queen.spark.lake.tables import arrow_schema
from queen.spark.lake.writing import write_file

SMALL = 16 << 20
LARGE = 64 << 20


@dataclass(frozen=True)
class Compacted:
    """What compacting came to."""

    before: int
    after: int
    swept: int
    pruned: int


def compact(lake: Lake, tell: Callable[[int, int], None] = lambda done, total: None) -> Compacted:
    """Rewrite the small files, forget old commits, and remove what nobody names."""
    with lake.writing():
        state = lake.state()
        before = len(state.files)
        groups = list(small(list(state.files.values())))
        for done, files in enumerate(groups, start=1):
            with lake.staging() as staged:
                first = files[0]
                tables = [pq.read_table(lake.whole(file), schema=arrow_schema(first.table)) for file in files]
                merged = write_file(first.table, pa.concat_tables(tables), first.group, first.date, staged)
                gone = [file.path for file in files]
                commit = Commit(version=0, kind="compact", table=first.table, added=[merged], removed=gone)
                state = lake.commit(state, commit, staged)
            for path in gone:
                # Readers that began before may still need it: the sweep counts from now.
                with suppress(OSError):
                    os.utime(lake.path / path)
            tell(done, len(groups))
        if any((lake.path / "data").glob("*/_delta_log")):
            require_delta()
            write_delta(lake, state)
        pruned = lake.manifest.prune(state) if state.version else 0
        return Compacted(before, len(state.files), lake.sweep(state), pruned)


def small(files: list[File]) -> Iterator[list[File]]:
    """Small files that belong together, in the order of their rows, none of them growing too large."""
    ordered = sorted(files, key=lambda file: (file.table, file.group, file.date, file.low))
    for _, alike in groupby(ordered, key=lambda file: (file.table, file.group, file.date)):
        held: list[File] = []
        size = 0
        for file in alike:
            if file.bytes >= SMALL:
                continue
            if size + file.bytes > LARGE:
                yield held
                held, size = [], 0
            held.append(file)
            size += file.bytes
        if len(held) > 1:
            yield held
