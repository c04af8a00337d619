"""Where a stream stands: one number for any count of partitions, and what it is valid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from queen.spark.errors import SparkError
from queen.spark.takeover import preceded


@dataclass(frozen=True, slots=True)
class Position:
    """Everything with `pos` below this one is read.

    `database` names the cluster, timeline and database the number belongs to; `removed` is how many
    removals had happened when the stream began: later ones above `pos` took away unread messages.
    `starts` are the first seqs to read of some partitions (by id), as startingOffsets said when the stream began;
    from `settled` on (never, when that is None) no message is left out by them.
    """

    pos: int
    database: str
    removed: int
    starts: Mapping[str, int] = field(default_factory=dict)
    settled: int | None = None

    def to_offset(self) -> dict[str, Any]:
        """As Spark keeps it in the checkpoint."""
        kept = {"pos": self.pos, "database": self.database, "removed": self.removed}
        return kept | ({"starts": dict(self.starts), "settled": self.settled} if self.starts else {})

    def moved(self, pos: int) -> Self:
        """The position further on; what was to be left out at the start is forgotten when it is passed."""
        if self.settled is not None and pos >= self.settled:
            return replace(self, pos=pos, starts={}, settled=None)
        return replace(self, pos=pos)

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> Self:
        """What `to_offset` wrote."""
        try:
            starts = {str(partition): int(seq) for partition, seq in offset.get("starts", {}).items()}
            settled = offset.get("settled")
            known = int(offset["pos"]), str(offset["database"]), int(offset["removed"])
            return cls(*known, starts, None if settled is None else int(settled))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise SparkError("FOREIGN_POSITION", f"this is not a position of a queue: {json.dumps(offset)}") from None

    def require_valid(self, here: Position) -> None:
        """Refuse a position that means nothing in the database at hand."""
        if self.database != here.database:
            raise SparkError(
                "FOREIGN_POSITION",
                f"the checkpoint belongs to database {self.database}, but this is {here.database} "
                "(system:timeline:database): it was restored, failed over or replaced, so positions may mean other "
                "messages; start with a new checkpoint"
                + (
                    ", or with onFailover=adopt if this server took over"
                    if preceded(self.database, here.database)
                    else ""
                ),
            )
        if self.pos > here.pos:
            raise SparkError(
                "FOREIGN_POSITION",
                f"the checkpoint stands at position {self.pos}, but the database has only come to {here.pos}: it was "
                "restored from an older state; start with a new checkpoint",
            )
