"""What the earlier versions would deliver, told in Python from their tables: written apart from what moves them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

Row = dict[str, Any]
Pair = tuple[str, str, str]
QUEUE_MODE = "__QUEUE_MODE__"
FINISHED = {"completed", "failed", "dead_letter"}


@dataclass
class Expected:
    """By queue, partition and group: what waits, in order; and by queue and group how many dead letters there are."""

    waiting: dict[Pair, list[UUID]] = field(default_factory=dict)
    leased: dict[Pair, list[UUID]] = field(default_factory=dict)
    dead: dict[tuple[str, str], int] = field(default_factory=dict)
    payloads: dict[UUID, object] = field(default_factory=dict)


class Tables:
    """The tables of an earlier schema, whole, in memory."""

    def __init__(self, dsn: str, schema: LiteralString = "queen") -> None:
        self._connection = psycopg.connect(dsn, row_factory=dict_row)
        self._schema = schema
        with self._connection:
            self.queues = {row["id"]: row for row in self.rows("queues")}
            self.partitions = {row["id"]: row for row in self.rows("partitions")}
            self.messages: dict[UUID, list[Row]] = defaultdict(list)
            for row in self.rows("messages"):
                self.messages[row["partition_id"]].append(row)
            for each in self.messages.values():
                each.sort(key=lambda row: (row["created_at"], row["id"].bytes))
            self.dead_letters = self.rows("dead_letter_queue")
            self.expected = self._v2() if self._has("messages_status") else self._v3()

    def rows(self, table: str) -> list[Row]:
        return self._connection.execute(
            psycopg.sql.SQL("select * from {}.{}").format(
                psycopg.sql.Identifier(self._schema), psycopg.sql.Identifier(table)
            )
        ).fetchall()

    def _has(self, table: str) -> bool:
        found = self._connection.execute("select to_regclass(%s) is not null as has", [f"{self._schema}.{table}"])
        row = found.fetchone()
        return bool(row and row["has"])

    def _names(self, partition: UUID) -> tuple[str, str]:
        row = self.partitions[partition]
        return self.queues[row["queue_id"]]["name"], row["name"]

    def _v3(self) -> Expected:
        expected = self._begin()
        consumers = {(row["partition_id"], row["consumer_group"]): row for row in self.rows("partition_consumers")}
        metadata = self.rows("consumer_groups_metadata")
        for partition, row in self.partitions.items():
            queue = self.queues[row["queue_id"]]
            ours = [m for m in metadata if _concerns(m, queue)]
            siblings = [p for p in self.partitions if self.partitions[p]["queue_id"] == queue["id"]]
            groups = {m["consumer_group"] for m in ours} | {group for p, group in consumers if p in siblings}
            for group in groups:
                found = consumers.get((partition, group))
                if found is None:
                    told = [m for m in ours if m["consumer_group"] == group]
                    start = _start([m for m in told if m["partition_name"] in ("", row["name"])])
                    after = [m for m in self.messages[partition] if start is None or m["created_at"] >= start]
                elif found["last_consumed_created_at"] is None:
                    after = self.messages[partition]
                else:
                    place = (found["last_consumed_created_at"], found["last_consumed_id"].bytes)
                    after = [m for m in self.messages[partition] if (m["created_at"], m["id"].bytes) > place]
                expected.waiting[(*self._names(partition), group)] = [m["id"] for m in after]
        for row in self.dead_letters:
            self._count_dead(expected, row["partition_id"], row["consumer_group"])
        return expected

    def _v2(self) -> Expected:
        expected = self._begin()
        fates = _Fates(self)
        for partition, row in self.partitions.items():
            for group in fates.groups[row["queue_id"]]:
                waiting = [m["id"] for m in self.messages[partition] if not fates.finished(m, group)]
                expected.waiting[(*self._names(partition), group)] = waiting
        for row in self.dead_letters:
            self._count_dead(expected, row["partition_id"], row["consumer_group"])
        for partition, group in fates.failed_without_row():
            self._count_dead(expected, partition, group)
        return expected

    def _begin(self) -> Expected:
        expected = Expected()
        expected.payloads = {m["id"]: m["payload"] for each in self.messages.values() for m in each}
        return expected

    def _count_dead(self, expected: Expected, partition: UUID, group: str | None) -> None:
        key = (self._names(partition)[0], group or QUEUE_MODE)
        expected.dead[key] = expected.dead.get(key, 0) + 1


class _Fates:
    """What became of each message of v2 for each group."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._statuses: dict[tuple[UUID, str], list[str]] = defaultdict(list)
        for row in tables.rows("messages_status"):
            self._statuses[row["message_id"], row["consumer_group"] or QUEUE_MODE].append(row["status"])
        self._cursors = {(r["partition_id"], r["consumer_group"]): r for r in tables.rows("partition_cursors")}
        self._subscribed = {(row["queue_id"], row["name"]): row for row in tables.rows("consumer_groups")}
        self._dead = {(row["message_id"], row["consumer_group"]) for row in tables.dead_letters}
        self._homes = {m["id"]: partition for partition, each in tables.messages.items() for m in each}
        self.groups: dict[UUID, set[str]] = defaultdict(set)
        leased = [(row["partition_id"], row["consumer_group"]) for row in tables.rows("partition_leases")]
        told = [(self._homes[message], group) for message, group in self._statuses]
        for partition, group in [*self._cursors, *leased, *told]:
            self.groups[tables.partitions[partition]["queue_id"]].add(group)
        for queue, group in self._subscribed:
            self.groups[queue].add(group)

    def finished(self, message: Row, group: str) -> bool:
        said = self._statuses.get((message["id"], group))
        if said:
            return all(status in FINISHED for status in said)
        if (message["id"], group) in self._dead:
            return True
        cursor = self._cursors.get((message["partition_id"], group))
        if cursor is not None:
            at, last = cursor["last_consumed_created_at"], cursor["last_consumed_id"]
            return at is not None and (message["created_at"], message["id"].bytes) <= (at, last.bytes)
        queue = self._tables.partitions[message["partition_id"]]["queue_id"]
        mode = self._subscribed.get((queue, group))
        return bool(mode and mode["subscription_mode"] == "new" and message["created_at"] < mode["created_at"])

    def failed_without_row(self) -> Iterator[tuple[UUID, str]]:
        for (message, group), said in self._statuses.items():
            if {"failed", "dead_letter"} & set(said) and (message, group) not in self._dead:
                yield self._homes[message], group


def _concerns(metadata: Row, queue: Row) -> bool:
    if metadata["queue_name"]:
        return bool(metadata["queue_name"] == queue["name"])
    if not metadata["namespace"] and not metadata["task"]:
        return False
    return metadata["namespace"] in ("", queue["namespace"]) and metadata["task"] in ("", queue["task"])


def _start(metadata: list[Row]) -> Any:
    for one in sorted(metadata, key=lambda m: (not m["queue_name"], not m["partition_name"])):
        mode = one["subscription_mode"]
        return None if mode == "all" else one["subscription_timestamp"]
    return None
