"""Which conditions of a query PostgreSQL can take over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

TICK = timedelta(microseconds=1)
SEQ_END = 2**63 - 1
NEVER_NULL = ("queue", "partition", "partition_id", "seq", "id", "transaction_id", "payload", "created_at")


@dataclass(slots=True)
class Conditions:
    """What was taken over: names and ids that must match, ranges that must hold.

    Partitions and seqs are left to Spark unless `by_lane`: a read between positions does not look at them.
    """

    by_lane: bool = True
    names: dict[str, set[Any]] = field(default_factory=dict)
    low_seq: int = 0
    high_seq: int = SEQ_END
    since: datetime | None = None
    until: datetime | None = None

    def take(self, condition: Filter) -> bool:
        """Take a condition over, if it can be."""
        if isinstance(condition, IsNotNull):
            return condition.attribute[0] in NEVER_NULL
        if isinstance(condition, EqualTo | In):
            return self._take_values(condition)
        if isinstance(condition, GreaterThan | GreaterThanOrEqual):
            return self._take_low(condition, open_end=isinstance(condition, GreaterThan))
        if isinstance(condition, LessThan | LessThanOrEqual):
            return self._take_high(condition, open_end=isinstance(condition, LessThan))
        return False

    def _take_values(self, condition: EqualTo | In) -> bool:
        column = condition.attribute[0]
        values = set(condition.value) if isinstance(condition, In) else {condition.value}
        if column not in ("queue", "partition", "partition_id") or None in values:
            return False
        if column != "queue" and not self.by_lane:
            return False
        self.names[column] = self.names.get(column, values) & values
        return True

    def _take_low(self, condition: GreaterThan | GreaterThanOrEqual, *, open_end: bool) -> bool:
        match condition.attribute[0]:
            case "seq" if self.by_lane:
                self.low_seq = max(self.low_seq, int(condition.value) + open_end)
            case "created_at":
                time = moment(condition.value) + TICK * open_end
                self.since = time if self.since is None else max(self.since, time)
            case _:
                return False
        return True

    def _take_high(self, condition: LessThan | LessThanOrEqual, *, open_end: bool) -> bool:
        match condition.attribute[0]:
            case "seq" if self.by_lane:
                self.high_seq = min(self.high_seq, int(condition.value) + (not open_end))
            case "created_at":
                time = moment(condition.value) + TICK * (not open_end)
                self.until = time if self.until is None else min(self.until, time)
            case _:
                return False
        return True

    @property
    def by_partition(self) -> bool:
        """Whether the primary key answers this best."""
        by_name = bool(self.names.keys() & {"partition", "partition_id"})
        return by_name or self.low_seq > 0 or self.high_seq < SEQ_END

    def admits(self, row: dict[str, Any]) -> bool:
        """Whether a partition (id, name, queue) can hold rows that fit."""
        values = {"queue": row["queue"], "partition": row["name"], "partition_id": row["id"]}
        return all(values[column] in allowed for column, allowed in self.names.items())


def moment(value: datetime) -> datetime:
    """A time of Spark's; without a zone it is UTC."""
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def take_over(filters: Sequence[Filter], conditions: Conditions) -> list[Filter]:
    """Take over what can be; the rest is left to Spark."""
    return [condition for condition in filters if not conditions.take(condition)]
