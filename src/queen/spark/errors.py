"""What the connector refuses, each in one sentence.

```
QueenError
└─ SparkError
   ├─ INVALID_OPTION       an option, or a combination of them, is not allowed
   ├─ QUEUE_NOT_FOUND      no queue fits
   ├─ FOREIGN_POSITION     the checkpoint belongs to another database, or to this one before a restore or failover
   ├─ COMMITS_LOST         the server that took over lacks something that was read from the one before
   ├─ DATA_LOST            messages were removed before they were read (failOnDataLoss)
   ├─ REPLICA_BEHIND       a replica has not come as far as is to be read
   ├─ WRONG_PYTHON         the Python that Spark starts for its workers lacks Queen
   ├─ STAGE_LOST           staged rows are gone: the batch has to run again
   ├─ QUEUE_FULL           a limited queue has no room for the batch
   ├─ PAGE_TOO_LARGE       a message is larger than PostgreSQL can send
   ├─ INVALID_ROW          a row cannot become a message
   ├─ JAVA_NOT_FOUND       neither Java 17 or newer nor the wheel that brings one
   ├─ STORE_UNAVAILABLE    the database cannot be reached
   ├─ PIPELINE_NOT_FOUND   no pipeline of that name, or a file without one
   ├─ SPARK_FAILED         Spark itself refused, such as a condition that is no SQL
   ├─ LAKE_NOT_FOUND       no lake there
   ├─ FOREIGN_LAKE         the lake of another database, or of this one before a restore or failover
   ├─ LAKE_TOO_OLD         a lake of an earlier release: `queen lake convert`
   ├─ LAKE_BUSY            another run is writing to the lake
   ├─ LAKE_DAMAGED         a file or commit of the lake is missing or not whole
   ├─ LAKE_FULL            no room on the disk
   └─ INVALID_QUERY        a statement the lake cannot answer
```
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from queen.errors import QueenError


class SparkError(QueenError):
    """The connector cannot do what was asked; the message says why, the code what to branch on."""

    def __init__(self, code: str, message: str, figures: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, figures=figures)
        self.code = code

    def __reduce__(self) -> tuple[type[SparkError], tuple[str, str, dict[str, Any]]]:
        return SparkError, (self.code, self.message, dict(self.figures))

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


@contextmanager
def plainly() -> Iterator[None]:
    """Let Spark show our own errors as one sentence, without the stack of its worker process."""
    try:
        yield
    except QueenError as error:
        # Spark's worker looks at this when it reports an error, and ends afterwards.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error from None
