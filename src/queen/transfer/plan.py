"""What is there, what will happen, how long it takes, and what is odd. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from queen.sql import query
from queen.transfer.link import Link
from queen.transfer.model import aside
from queen.transfer.prepare import needed_bytes

RATE = 25_000
"""Messages a second that a modest machine copies; the copy itself shows what it is."""


@dataclass(frozen=True, slots=True)
class Oddity:
    """Rows that are not as they should be, and what becomes of them."""

    count: int
    what: str
    becomes: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a transfer would do."""

    version: str
    same_database: bool
    counts: dict[str, int]
    needed_bytes: int
    seconds: float
    steps: list[str]
    odd: list[Oddity]


async def plan(link: Link) -> Plan:
    """Look at the source, and at the target only to see whether it is the same database."""
    counts = {row["what"]: row["count"] for row in await link.source.fetch(query(f"transfer/{link.version}/counts"))}
    rows = await link.source.fetch(query(f"transfer/{link.version}/odd"))
    odd = [Oddity(row["count"], row["what"], row["becomes"]) for row in rows if row["count"]]
    return Plan(link.version, link.same, counts, await needed_bytes(link), counts["messages"] / RATE, _steps(link), odd)


def _steps(link: Link) -> list[str]:
    where = "beside it in the same database" if link.same else "in the target database"
    return [
        f"copy: installs the new schema {where} as queen_next; copies everything in batches while the source is live",
        "follow: what changes is applied until the day comes; verify compares both sides",
        f"cutover: writers wait for seconds, the schema queen becomes {aside(link.version)}, queen_next becomes queen",
        f"rollback: what happened since is written back, and {aside(link.version)} is the schema queen again",
        f"cleanup: drops {aside(link.version)}, after a yes and a passed verify",
    ]
