"""Queues filled by SQL, and what is in them."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.rows import TupleRow


class Queues:
    """One connection to a database of a test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: psycopg.Connection[TupleRow] = psycopg.connect(url, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def connect(self, **options: Any) -> psycopg.Connection[TupleRow]:
        """Another connection; the caller closes it."""
        return psycopg.connect(self.url, **options)

    def push(self, queue: str, partition: str, payload: object, **extra: Any) -> None:
        """One message."""
        push(self.connection, queue, partition, payload, **extra)

    def fill(self, queue: str, partitions: int, per_partition: int, *, at_once: int = 1000) -> None:
        """Messages {"p": partition, "n": 0, 1, ...} in partitions p0, p1, ..., in calls of their own."""
        lanes_per_call = max(at_once // per_partition, 1)
        for first in range(0, partitions, lanes_per_call):
            lanes = range(first, min(first + lanes_per_call, partitions))
            self.connection.execute(
                """
                select from queen.push_messages(
                    array_fill(%(queue)s::text, array[%(lanes)s]),
                    array(select 'p' || (%(first)s + i) from generate_series(0, %(lanes)s - 1) i),
                    array(select i / %(each)s + 1 from generate_series(0, %(lanes)s * %(each)s - 1) i),
                    array(select i %% %(each)s from generate_series(0, %(lanes)s * %(each)s - 1) i),
                    array(select gen_random_uuid() from generate_series(1, %(lanes)s * %(each)s)),
                    array(select jsonb_build_object('p', %(first)s + i / %(each)s, 'n', i %% %(each)s)
                            from generate_series(0, %(lanes)s * %(each)s - 1) i))
                """,
                {"queue": queue, "lanes": len(lanes), "first": first, "each": per_partition},
            )

    def rows(self, statement: str, *values: Any) -> list[TupleRow]:
        """What a statement returns; the values by place, or one dictionary by name."""
        named = values[0] if len(values) == 1 and isinstance(values[0], dict) else values
        return self.connection.execute(statement.encode(), named).fetchall()

    def age(self) -> None:
        """Let everything that is stored be an hour older."""
        older = "{0} = {0} - interval '1 hour'".format
        self.rows(f"update queen.messages set {older('created_at')} returning 1")
        self.rows(f"update queen.partitions set {older('oldest_at')}, {older('last_created_at')} returning 1")

    def value(self, statement: str, *values: Any) -> Any:
        """What a statement with one value returns."""
        return self.rows(statement, *values)[0][0]

    def contents(self, queue: str) -> dict[str, list[Any]]:
        """The payloads of a queue by partition, in order of seq."""
        found: dict[str, list[Any]] = {}
        for partition, payload in self.rows(
            """select p.name, m.payload from queen.messages m join queen.partitions p on p.id = m.partition_id
                 join queen.queues q on q.id = p.queue_id where q.name = %s order by p.id, m.seq""",
            queue,
        ):
            found.setdefault(partition, []).append(payload)
        return found


def push(connection: psycopg.Connection[TupleRow], queue: str, partition: str, payload: object, **extra: Any) -> None:
    """One message in whatever transaction the connection is in."""
    connection.execute(
        "select queen.push(%s, %s, %s, transaction_id => %s, trace_id => %s)",
        [queue, partition, json.dumps(payload), extra.get("transaction_id"), extra.get("trace_id")],
    )
