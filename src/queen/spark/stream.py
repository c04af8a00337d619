"""`spark.readStream.format("queen")`: batches between commit horizons."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from queen.spark import reading
from queen.spark.database import Database
from queen.spark.errors import SparkError, plainly
from queen.spark.mirror import Mirror
from queen.spark.offsets import Position
from queen.spark.options import SourceOptions
from queen.spark.planning import Planner, Slice, cut

IDLE_STRETCH = 1_000_000
"""So many positions of other queues are passed before an empty batch moves the checkpoint on."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in a process beside the driver; its copies read them in tasks.

    Spark asks for the latest offset only when everything before `start` has been processed: that is
    the moment to show progress in a consumer group.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._planner: Planner | None = None
        self._mirror = Mirror(options.group) if options.group else None
        self._initial: Position | None = None
        self._target: Position | None = None
        self._latest: Position | None = None
        self._empty_from = self._empty_to = 0
        self._waiting_since: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_planner": None, "_mirror": None}

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new stream begins; the same when asked again."""
        if self._initial is None:
            planner = self._asking()
            self._initial = planner.start(planner.queues(), planner.here())
        return self._initial.to_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much a batch may hold: maxOffsetsPerTrigger."""
        return ReadMaxRows(self._options.most) if self._options.most else ReadAllAvailable()

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is committed now is all that this run reads."""
        self._target = self._asking().here()

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; `start` itself when there is nothing to read yet."""
        planner = self._asking()
        here = self._latest = planner.here()
        position = planner.accept(Position.from_offset(start), here)
        queues = planner.queues()
        if self._mirror is not None:
            self._mirror.move(planner.database, queues, position.pos)
        self._require_kept(planner, queues, position)
        high = here.pos if self._target is None else max(min(here.pos, self._target.pos), position.pos)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return position.moved(self._end(planner, queues, position.pos, high, rows)).to_offset()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The horizon, so that progress reports show how far behind the stream is."""
        return self._latest.to_offset() if self._latest else None

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The batch cut into tasks."""
        planner = self._asking()
        low, high = Position.from_offset(start), Position.from_offset(end)
        if high.pos <= low.pos:
            return []
        here = planner.here()
        low, high = planner.accept(low, here), planner.accept(high, here)
        queues = planner.queues()
        parts = cut(low.pos, high.pos, self._options.task_size(high.pos - low.pos), self._options.min_partitions)
        return [Slice(queues, replace(low, pos=first), last) for first, last in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        with plainly():
            if isinstance(partition, Slice):
                yield from reading.read(self._options, self._schema, partition)

    @plainly()
    def commit(self, end: dict[str, Any]) -> None:
        """Spark has done everything below `end`."""
        if self._mirror is not None:
            planner = self._asking()
            self._mirror.move(planner.database, planner.queues(), Position.from_offset(end).pos)

    def stop(self) -> None:
        """The stream ends."""
        if self._planner is not None:
            self._planner.database.close()

    def _asking(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options, Database(self._options.address, limit=self._options.statement_limit))
        return self._planner

    def _require_kept(self, planner: Planner, queues: Sequence[int], position: Position) -> None:
        ask = {"from": position.pos, "removed": position.removed, "starts": dict(position.starts)}
        if self._options.archive:
            missing = planner.database.rows("lake/lost", **ask, lenient=self._options.archive == "lenient")
        else:
            missing = planner.database.rows("lost", queues=list(queues), **ask)
        reading.report_missing(missing, fail=self._options.fail_on_data_loss)

    def _end(self, planner: Planner, queues: Sequence[int], pos: int, high: int, rows: int | None) -> int:
        low = self._empty_to if self._empty_from == pos < self._empty_to <= high else pos
        first, reach = planner.reach(queues, low, high, rows)
        if first is None:
            self._empty_from, self._empty_to = pos, high
            return high if high - pos > IDLE_STRETCH and self._target is None else pos
        return reach if self._enough(planner, queues, first, high) else pos

    def _enough(self, planner: Planner, queues: Sequence[int], low: int, high: int) -> bool:
        least = self._options.least
        if least is None or self._target is not None:
            return True
        now = time.monotonic()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        overdue = now - self._waiting_since >= self._options.delay
        if not overdue and (high - low < least or planner.count(queues, low, high, least) < least):
            return False
        self._waiting_since = None
        return True


class RefusedReader(DataSourceStreamReader):
    """Stands for a stream that cannot be, and says why."""

    def __init__(self, error: SparkError) -> None:
        self._error = error

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raise the reason."""
        raise self._error

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Raise the reason."""
        raise self._error

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the reason."""
        raise self._error

    @plainly()
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the reason."""
        raise self._error
