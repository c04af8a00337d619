"""Ways to follow a queue: the connector's own, and three that look right and are not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from pyspark.sql.streaming.datasource import ReadMaxRows

from queen.spark.columns import MESSAGES, chosen
from queen.spark.options import source_options
from queen.spark.stream import StreamReader
from tests.spark.support.queues import Queues

Row = tuple[str, int]
"""Partition and seq."""


class Follower(ABC):
    """Reads a queue in batches of a few messages, as far as its notion of a position allows."""

    def __init__(self, queues: Queues, queue: str, batch: int, *, first: str | None = None) -> None:
        """Follow a queue from its beginning; `first` pushes a first message into that partition before."""
        if first is not None:
            queues.push(queue, first, "first")
        self.queues = queues
        self.queue = queue
        self.batch = batch
        self.seen: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End what was opened."""

    @abstractmethod
    def step(self) -> bool:
        """Read one batch; False when there was none."""

    def poll(self) -> None:
        """Read what there is."""
        while self.step():
            pass

    def problems(self) -> list[str]:
        """What is missing, twice or out of order, compared with the table."""
        stored = self.queues.rows(
            """select p.name, m.seq from queen.messages m join queen.partitions p on p.id = m.partition_id
                 join queen.queues q on q.id = p.queue_id where q.name = %s""",
            self.queue,
        )
        found = [f"missing {row}" for row in stored if row not in self.seen]
        found += [f"twice {row}" for row in set(self.seen) if self.seen.count(row) > 1]
        last: dict[str, int] = {}
        for partition, seq in self.seen:
            if seq < last.get(partition, 0):
                found.append(f"out of order {(partition, seq)}")
            last[partition] = seq
        return found


class ByHorizon(Follower):
    """The connector, called the way Spark calls it."""

    def __init__(
        self,
        queues: Queues,
        queue: str,
        batch: int,
        *,
        first: str | None = None,
        columns: str = "partition,seq",
        **options: str,
    ) -> None:
        super().__init__(queues, queue, batch, first=first)
        given = {"url": queues.url, "queue": queue, "startingOffsets": "earliest"} | options
        self.reader = StreamReader(source_options(given, streaming=True), chosen(MESSAGES, columns.split(",")))
        self.offset = self.reader.initialOffset()

    def close(self) -> None:
        self.reader.stop()

    def payloads(self) -> list[str]:
        """The payloads of everything there is."""
        end = self.reader.latestOffset(self.offset, ReadMaxRows(self.batch))
        parts = self.reader.partitions(self.offset, end)
        return [row["payload"] for part in parts for rows in self.reader.read(part) for row in rows.to_pylist()]

    def on(self, queues: Queues) -> Self:
        """Go on with another connection, after a restart of the server."""
        self.queues = queues
        return self

    def step(self) -> bool:
        end = self.reader.latestOffset(self.offset, ReadMaxRows(self.batch))
        if end == self.offset:
            return False
        for part in self.reader.partitions(self.offset, end):
            for rows in self.reader.read(part):
                self.seen += [(row["partition"], row["seq"]) for row in rows.to_pylist()]
        self.offset = end
        return True


class ByColumn(Follower):
    """Remembers the greatest value of something and asks for what is greater."""

    value = ""
    visible = "true"

    def __init__(self, queues: Queues, queue: str, batch: int, *, first: str | None = None) -> None:
        super().__init__(queues, queue, batch, first=first)
        self.last: Any = None

    def close(self) -> None:
        self.last = None

    def step(self) -> bool:
        rows = self.queues.rows(
            f"""select p.name, m.seq, {self.value} as place from queen.messages m
                  join queen.partitions p on p.id = m.partition_id join queen.queues q on q.id = p.queue_id
                 where q.name = %(queue)s and {self.visible}
                   and (%(last)s::text is null or {self.value} > (%(last)s::text)::{self.kind})
                 order by place, p.id, m.seq limit %(batch)s""",
            {"queue": self.queue, "last": None if self.last is None else str(self.last), "batch": self.batch},
        )
        self.seen += [(row[0], row[1]) for row in rows]
        self.last = rows[-1][2] if rows else self.last
        return bool(rows)

    kind = "bigint"


class ByCreatedAt(ByColumn):
    """The newest creation time read so far."""

    value = "m.created_at"
    kind = "timestamptz"


class BySequence(ByColumn):
    """The highest sequence value read so far."""

    value = "m.pos"


class ByTransaction(ByColumn):
    """The highest transaction id read so far, of those before the oldest transaction still running."""

    value = "m.xmin::text::bigint"
    visible = "m.xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
