"""The format `queen` as Spark sees it."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from queen.spark.batch import BatchReader
from queen.spark.columns import ARCHIVED, checked, chosen
from queen.spark.errors import SparkError, plainly
from queen.spark.options import SinkOptions, sink_options, source_options, words
from queen.spark.session import require_worker_python
from queen.spark.sink import BatchWriter, StreamWriter
from queen.spark.staging import require_fitting
from queen.spark.stream import RefusedReader, StreamReader
from queen.spark.tables import TableReader, table_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueenDataSource(DataSource):
    """Queues, and what Queen knows about them, as tables.

    A plain subclass to override for tests of failures; everything else is an option.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "queen"

    @plainly()
    def schema(self) -> StructType:
        """The columns, or those that the option `columns` names."""
        return chosen(self._table(), words(self.options.get("columns") or ""))

    @plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = source_options(self.options)
        kind = BatchReader if options.table == "messages" else TableReader
        return kind(options, checked(schema, self._table()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`. An error here would come out garbled, so the reader raises it when it is asked."""
        try:
            options = source_options(self.options, streaming=True)
            if options.table != "messages":
                raise SparkError("INVALID_OPTION", f"table {options.table!r} can be read in batch only")
            if options.assign is not None:
                raise SparkError("INVALID_OPTION", "option `assign` is for batch reads; a stream reads whole queues")
            return StreamReader(options, checked(schema, self._table()))
        except SparkError as error:
            return RefusedReader(error)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """For `df.write`."""
        return BatchWriter(self._sink_options(schema, overwrite=overwrite))

    @plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """For `df.writeStream`."""
        options = self._sink_options(schema, overwrite=overwrite)
        if options.write_id is not None:
            raise SparkError(
                "INVALID_OPTION",
                "option `writeId` is for batch writes: the batches of a stream are known by its checkpoint, and those "
                "of a new checkpoint are other batches",
            )
        return StreamWriter(options)

    def _table(self) -> StructType:
        return ARCHIVED if self.options.get("archive") else table_schema(self.options.get("table") or "messages")

    def _sink_options(self, schema: StructType, *, overwrite: bool) -> SinkOptions:
        options = sink_options(self.options)
        if overwrite:
            raise SparkError(
                "INVALID_OPTION", "messages cannot be overwritten: use mode append (or update, for streams)"
            )
        require_fitting(schema, options)
        return options


def register(spark: SparkSession) -> None:
    """Make the format `queen` known to a session that did not find it by itself.

    Refuses a session on this machine whose workers would run in a Python that lacks Queen.
    """
    require_worker_python(spark)
    spark.dataSource.register(QueenDataSource)
