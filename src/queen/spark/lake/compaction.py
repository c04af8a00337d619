"""Small files into large ones, a name and day at a time, and left-overs away, by the executors of a Spark session.

Nobody is held up: an archive goes on committing meanwhile, and readers see the old files or the new ones. What a run
that was killed has written and not committed is removed by a later vacuum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from queen.spark.errors import plainly
from queen.spark.lake.files import File, listed
from queen.spark.lake.lake import KEEP_HOURS, Lake, Moved
from queen.spark.lake.places import Place
from queen.spark.lake.reading import batches_of
from queen.spark.lake.tables import LAKE_TABLES
from queen.spark.lake.writing import TARGET, Filer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[int, int], None]
AT_ONCE: Final = 32
"""Groups of files that are rewritten for one commit: what a killed run does again at most."""
TRIES: Final = 10
BY_A_TASK: Final = 1000


@dataclass(frozen=True)
class Compacted:
    """What compacting came to."""

    before: int
    after: int
    rows: int = 0
    """How many were written anew."""


def compact(
    spark: SparkSession, lake: Lake, tell: Tell = lambda done, total: None, *, target: int = TARGET
) -> Compacted:
    """Rewrite small files beside whoever writes."""
    before = after = rows = 0
    for table in LAKE_TABLES:
        log = lake.log(table)
        files = list(listed(table, log)) if log is not None else []
        groups = list(small(files, target))
        before += len(files)
        after += len(files)
        for number in range(0, len(groups), AT_ONCE):
            wave = groups[number : number + AT_ONCE]
            for gone, merged in exchanged(lake, table, rewritten(spark, lake, table, wave, target)):
                after += len(merged) - len(gone)
                rows += sum(file.rows for file in merged)
            tell(number + len(wave), len(groups))
    return Compacted(before, after, rows)


Exchange = tuple[Sequence[File], Sequence[File]]


def rewritten(
    spark: SparkSession, lake: Lake, table: str, groups: Sequence[Sequence[File]], target: int
) -> list[Exchange]:
    """The rows of each group of files in new ones, each group by one task."""
    lake.require_whole([file for group in groups for file in group])
    share = partial(rewrite_groups, lake.place.below(table), table, target, groups)
    tasks = spark.range(0, len(groups), 1, len(groups)).mapInArrow(share, "number long, files string")
    return [(groups[row.number], msgspec.json.decode(row.files, type=list[File])) for row in tasks.collect()]


def exchanged(lake: Lake, table: str, found: Sequence[Exchange]) -> Sequence[Exchange]:
    """Let new files count in place of old ones, in one commit; those of which others took a file are left out."""
    for left in reversed(range(TRIES)):
        log = lake.log(table)
        alive = {file.path for file in listed(table, log)} if log is not None else set()
        valid = [(gone, merged) for gone, merged in found if all(file.path in alive for file in gone)]
        if log is None or not valid:
            return []
        try:
            gone, merged = ([file for pair in valid for file in pair[side]] for side in (0, 1))
            lake.exchange(table, log, gone, merged)
        except Moved:
            if not left:
                raise
        else:
            return valid
    return []


def rewrite_groups(
    place: Place, table: str, target: int, groups: Sequence[Sequence[File]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of its groups in new files, in their order."""
    with plainly():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                merged = list(merge(place, table, target, groups[number]))
                yield pa.RecordBatch.from_pydict({"number": [number], "files": [msgspec.json.encode(merged).decode()]})


def merge(place: Place, table: str, target: int, files: Sequence[File]) -> Iterator[File]:
    """The rows of some files in new ones, in their order."""
    filer = Filer(place, table, target)
    for file in files:
        for batch in batches_of(place, table, file.path):
            yield from filer.take(pa.Table.from_batches([batch]))
    yield from filer.end()


def small(files: list[File], target: int) -> Iterator[list[File]]:
    """Small files that belong together, in the order of their rows, about as many as make a large one."""
    ordered = sorted(files, key=lambda file: (file.group or "", file.date, file.low, file.path))
    for _, alike in groupby(ordered, key=lambda file: (file.group, file.date)):
        held: list[File] = []
        size = 0
        for file in alike:
            if file.bytes >= target // 2:
                continue
            held.append(file)
            size += file.bytes
            if size >= target:
                yield held
                held, size = [], 0
        if len(held) > 1:
            yield held


def vacuum(spark: SparkSession, lake: Lake, tell: Tell = lambda done, total: None, *, hours: int = KEEP_HOURS) -> int:
    """Remove files that no longer count, or never did, for so many hours; returns how many."""
    found = {table: paths for table in LAKE_TABLES if (paths := lake.left_over(table, hours=hours))}
    total, done = sum(map(len, found.values())), 0
    for table, paths in found.items():
        shares = [paths[number : number + BY_A_TASK] for number in range(0, len(paths), BY_A_TASK)]
        share = partial(remove_shares, lake.place.below(table), shares)
        rows = spark.range(0, len(shares), 1, len(shares)).mapInArrow(share, "removed long").collect()
        done += sum(row.removed for row in rows)
        tell(done, total)
    return done


def remove_shares(
    place: Place, shares: Sequence[Sequence[str]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: remove its files."""
    with plainly():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"removed": [place.remove(shares[number])]})
