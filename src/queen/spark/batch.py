"""`spark.read.format("queen")`: everything up to the commit horizon of the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from queen.spark import reading
from queen.spark.database import Database
from queen.spark.errors import plainly
from queen.spark.filters import Conditions, take_over
from queen.spark.offsets import Position
from queen.spark.options import SourceOptions
from queen.spark.planning import Planner, Slice, cut, pack


class PushDown:
    """Takes filters over for a reader, and looks inherited to Spark.

    Spark refuses a reader with a `pushFilters` of its own unless the session allows push-down
    (spark.sql.python.filterPushdown.enabled); one that is not overridden it just does not call then.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        """Take over what can be; return the rest."""
        return take_over(filters, self._conditions)


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._conditions = Conditions(by_lane=not options.by_position)
        # Set on the instance: see PushDown.
        vars(self)["pushFilters"] = PushDown(self._conditions)

    @plainly()
    def partitions(self) -> list[InputPartition]:
        """Ranges of positions, or of seqs where the primary key serves better."""
        options = self._options
        database = Database(options.address, limit=options.statement_limit, snapshot=options.snapshot)
        try:
            return list(self._plan(Planner(self._narrowed(), database)))
        finally:
            database.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        with plainly():
            if isinstance(partition, Slice):
                yield from reading.read(self._narrowed(), self._schema, partition)

    def _narrowed(self) -> SourceOptions:
        """The options with the times that filters allow."""
        options, taken = self._options, self._conditions
        since = [time for time in (options.since, taken.since) if time is not None]
        until = [time for time in (options.until, taken.until) if time is not None]
        return replace(options, since=max(since, default=None), until=min(until, default=None))

    def _plan(self, planner: Planner) -> Iterator[Slice]:
        options = self._options
        # As of a snapshot nothing may be written, and the end is given.
        here = Position.from_offset(options.ending.position or {}) if options.snapshot else planner.here()
        queues = planner.queues()
        chosen = options.assign or options.starting.seqs is not None or options.ending.seqs is not None
        if not options.by_position:
            extent = planner.extent(queues, here)
            if chosen or self._conditions.by_partition or extent.sparse:
                yield from self._plan_lanes(planner, queues, here)
                return
            here = replace(here, pos=extent.high)
        if self._conditions.names:
            queues = self._fitting(planner, queues)
        start = planner.start(queues, here)
        end = here if options.ending.position is None else planner.explicit(options.ending.position, here)
        last = max(end.pos, start.pos)
        for low, high in cut(start.pos, last, options.task_size(last - start.pos), options.min_partitions):
            yield Slice(queues, replace(start, pos=low), high)

    def _plan_lanes(self, planner: Planner, queues: Sequence[int], here: Position) -> Iterator[Slice]:
        taken = self._conditions
        fits: Callable[[dict[str, Any]], bool] = taken.admits
        lanes = [
            (lane, max(low, taken.low_seq), min(high, taken.high_seq))
            for lane, low, high in planner.lanes(queues, fits)
        ]
        total = sum(max(high - low, 0) for _, low, high in lanes)
        for packed in pack(lanes, self._options.task_size(total), self._options.min_partitions):
            yield Slice(queues, here, lanes=packed)

    def _fitting(self, planner: Planner, queues: Sequence[int]) -> list[int]:
        wanted = cast("set[str]", self._conditions.names.get("queue", set()))
        found = planner.database.rows("queues", names=sorted(wanted))
        return [row["id"] for row in found if row["id"] in set(queues)]
