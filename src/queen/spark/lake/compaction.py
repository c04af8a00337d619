"""Small files into large ones, a name and day at a time; readers see the old ones or the new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from queen.spark.lake.files import File, listed
from queen.spark.lake.lake import KEEP_HOURS, Lake
from queen.spark.lake.reading import batches_of
from queen.spark.lake.tables import LAKE_TABLES
from queen.spark.lake.writing import TARGET, Filer


@dataclass(frozen=True)
class Compacted:
    """What compacting came to."""

    before: int
    after: int
    removed: int


def compact(
    lake: Lake,
    tell: Callable[[int, int], None] = lambda done, total: None,
    *,
    target: int = TARGET,
    hours: int = KEEP_HOURS,
) -> Compacted:
    """Rewrite small files beside whoever writes, and remove what has not counted for so many hours."""
    before = after = 0
    for table in LAKE_TABLES:
        log = lake.log(table)
        if log is None:
            continue
        files = list(listed(table, log))
        groups = list(small(files, target))
        alive = {file.path for file in files}
        for done, group in enumerate(groups, start=1):
            if all(file.path in alive for file in group):
                merged = list(rewritten(lake, table, group, target))
                expected = log.version() + 1
                lake.exchange(table, log, group, merged)
                after += len(merged) - len(group)
                log.update_incremental()
                if log.version() != expected:
                    # Another compaction may have taken some of the files.
                    alive = {file.path for file in listed(table, log)}
            tell(done, len(groups))
        before += len(files)
    return Compacted(before, before + after, lake.vacuum(hours=hours))


def rewritten(lake: Lake, table: str, files: list[File], target: int) -> Iterator[File]:
    """The rows of some files in new ones, in their order."""
    place = lake.place.below(table)
    lake.require_whole(files)
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
