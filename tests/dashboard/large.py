"""A broker's database at any size, filled by statements over whole sets: a million messages in a minute or two."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg

STATEMENTS = Path(__file__).with_suffix(".sql")
EVENTS = "scale.events"
WIDE = "scale.wide"
TRACE = "0198c000-0000-7000-8000-000000000001"


@dataclass(frozen=True)
class Size:
    """How much of everything; `wide` is the number of partitions of the queue with the large heat map."""

    messages: int
    partitions: int
    groups: int
    workflows: int
    wide: int
    queues: int = 20
    days: int = 30
    dead: int = 10_000


FULL = Size(messages=1_000_000, partitions=10_000, groups=20, workflows=5_000, wide=100_000)
SMALL = Size(messages=12_000, partitions=1_200, groups=4, workflows=600, wide=600, queues=6, days=4, dead=1_500)


def fill(database: str, size: Size) -> None:
    """Put so much of everything into an empty database."""
    given = {name: getattr(size, name) for name in Size.__dataclass_fields__} | {"trace": TRACE}
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("set work_mem = '256MB'; set synchronous_commit = off")
        for statement in STATEMENTS.read_text().split("\n\n"):
            connection.execute(statement, given)
        rolled = 1
        while rolled:
            row = connection.execute("select queen.roll_up_stats(240)").fetchone()
            assert row is not None
            rolled = row[0]
        connection.execute("vacuum analyze")
