"""Where a stream stands: one number for any count of partitions, and what it is valid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from queen.spark.errors import SparkError


@dataclass(frozen=True, slots=True)
class Position:
    """Everything with `pos` below this one is read.

    `database` names the cluster, timeline and database the number belongs to; `removed` is how many
    removals had happened when the stream began: later ones above `pos` took away unread messages.
    """

    pos: int
    database: str
    removed: int

    def to_offset(self) -> dict[str, Any]:
        """As Spark keeps it in the checkpoint."""
        return {"pos": self.pos, "database": self.database, "removed": self.removed}

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> Self:
        """What `to_offset` wrote."""
        try:
            return cls(int(offset["pos"]), str(offset["database"]), int(offset["removed"]))
        except (KeyError, TypeError, ValueError):
            raise SparkError("FOREIGN_POSITION", f"this is not a position of a queue: {json.dumps(offset)}") from None

    def require_valid(self, here: Position) -> None:
        """Refuse a position that means nothing in the database at hand."""
        if self.database != here.database:
            raise SparkError(
                "FOREIGN_POSITION",
                f"the checkpoint belongs to database {self.database}, but this is {here.database} "
                "(system:timeline:database): it was restored, failed over or replaced, so positions may mean other "
                "messages; start with a new checkpoint",
            )
        if self.pos > here.pos:
            raise SparkError(
                "FOREIGN_POSITION",
                f"the checkpoint stands at position {self.pos}, but the database has only come to {here.pos}: it was "
                "restored from an older state; start with a new checkpoint",
            )
