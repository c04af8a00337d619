"""Small tables as Spark sees them, with only what a test cares about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from queen.spark.lake.tables import spark_schema

START = datetime(2026, 11, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment of the test."""
    return START + timedelta(seconds=seconds)


@dataclass
class Tables:
    """Rows of the three tables the analyses read, on their way to becoming frames."""

    spark: SparkSession
    message_rows: list[dict[str, Any]] = field(default_factory=list)
    delivery_rows: list[dict[str, Any]] = field(default_factory=list)
    letter_rows: list[dict[str, Any]] = field(default_factory=list)

    def message(self, lane: str, seq: int, seconds: float, payload: object = None, **more: Any) -> str:
        """A message of a lane `queue/partition`; returns its id."""
        queue, _, partition = lane.partition("/")
        given = {
            "id": f"{lane}#{seq}", "transaction_id": f"{lane}#{seq}", "payload": json.dumps(payload or {}),
            "created_at": at(seconds), "is_encrypted": False, "pos": len(self.message_rows) + 1,
        }  # fmt: skip
        row = {"queue": queue, "partition": partition, "partition_id": self.number(lane), "seq": seq, **given, **more}
        self.message_rows.append(row)
        return str(row["id"])

    def deliver(
        self, lane: str, group: str, batch: tuple[int, int], leased: float, ended: float, outcome: str = "completed",
        **more: Any,
    ) -> None:  # fmt: skip
        """A batch that was handed out."""
        queue, _, partition = lane.partition("/")
        self.delivery_rows.append(
            {
                "queue": queue, "partition": partition, "partition_id": self.number(lane), "consumer_group": group,
                "batch_from": batch[0], "batch_to": batch[1], "leased_at": at(leased), "ended_at": at(ended),
                "outcome": outcome, "failed": 0, "retry_count": 0, **more,
            }
        )  # fmt: skip

    def bury(self, lane: str, group: str, seq: int, seconds: float, error: str, payload: object = None) -> None:
        """A dead letter."""
        queue, _, partition = lane.partition("/")
        self.letter_rows.append(
            {
                "queue": queue, "partition": partition, "partition_id": self.number(lane), "consumer_group": group,
                "seq": seq, "id": f"{lane}#{seq}", "payload": json.dumps(payload or {}), "failed_at": at(seconds),
                "created_at": at(0), "error_message": error, "evicted": False,
            }
        )  # fmt: skip

    def number(self, lane: str) -> int:
        """A partition's id."""
        return int.from_bytes(lane.encode(), "big") % (2**40 - 87)

    @property
    def messages(self) -> DataFrame:
        """The table of messages."""
        return self._frame("messages", self.message_rows)

    @property
    def deliveries(self) -> DataFrame:
        """The table of deliveries."""
        return self._frame("deliveries", self.delivery_rows)

    @property
    def redrives(self) -> DataFrame:
        """The table of redrives, which is empty."""
        return self._frame("redrives", [])

    @property
    def letters(self) -> DataFrame:
        """The table of dead letters."""
        return self._frame("dead_letters", self.letter_rows)

    def _frame(self, table: str, rows: Iterable[dict[str, Any]]) -> DataFrame:
        schema = spark_schema(table)
        return self.spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """What a frame holds."""
    return [row.asDict(recursive=True) for row in frame.collect()]
