"""A driver of its own: relays the queue `in` to the queue `out` until nothing is left, and stumbles when told to.

    python relay.py URL DIRECTORY MASTER [ROWS]

ROWS are those of a batch; a task has about a third of them. In the directory: the checkpoint; `fail-commit`, if it is
there at the start, makes the sink fail once after it stored a batch, and the query is begun again. A worker that
outlives a killed driver does not heed it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from queen.spark import QueenDataSource, session
from queen.spark.sink import StreamWriter

ROWS = 4000


class StumblingWriter(StreamWriter):
    """Fails where it hurts: in a task of every other batch after its rows are staged, and on the driver after a batch
    is stored.
    """

    flag: Path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        even = int(context.getLocalProperty("streaming.sql.batchId") or 0) % 2 == 0
        if even and context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("told to fail after staging")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if self.flag.exists():
            self.flag.unlink()
            raise RuntimeError("told to fail after storing")


class StumblingSource(QueenDataSource):
    """The format `stumbling`: `queen` with a sink that fails."""

    @classmethod
    def name(cls) -> str:
        return "stumbling"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        writer = StumblingWriter(self._sink_options(schema, overwrite=overwrite))
        writer.flag = Path(self.options["flag"])
        return writer


def relay(spark: SparkSession, url: str, directory: Path, flag: Path, rows: int) -> None:
    reader = spark.readStream.format("queen").option("url", url).option("queue", "in")
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows)
    messages = reader.option("maxRowsPerTask", rows * 35 // 100).load()
    parsed = messages.selectExpr("partition", "from_json(payload, 'p int, n int') as m")
    doubled = parsed.selectExpr("partition", "to_json(named_struct('p', m.p, 'n', 2 * m.n)) as payload")
    writer = doubled.writeStream.format("stumbling").option("url", url).option("queue", "out")
    writer = writer.option("flag", str(flag)).option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def main(url: str, directory: Path, master: str, rows: int = ROWS) -> None:
    settings = {"spark.driver.memory": "1g", "spark.executor.memory": "600m", "spark.ui.enabled": "false"}
    spark = session(master, app="relay", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(StumblingSource)
    flag = directory / "fail-commit"
    if flag.exists():
        try:
            relay(spark, url, directory, flag, rows)
        except StreamingQueryException as error:
            sys.stderr.write(f"{error}\nbegun again\n")
    relay(spark, url, directory, directory / "no-such-flag", rows)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
