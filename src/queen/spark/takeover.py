"""A server that took over from another: whether what was read from that one is all here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from queen.spark.database import Database
from queen.spark.errors import SparkError


@dataclass(frozen=True, slots=True)
class Server:
    """What identifies a server and its database: `system:timeline:database`."""

    system: str
    timeline: int
    database: str

    @classmethod
    def of(cls, identity: str) -> Self | None:
        """What an identity says; None when it is none."""
        parts = identity.split(":")
        return cls(parts[0], int(parts[1]), parts[2]) if len(parts) == 3 and parts[1].isdigit() else None

    def preceded(self, other: Server) -> bool:
        """Whether the other can have taken over from this one."""
        return (self.system, self.database) == (other.system, other.database) and self.timeline < other.timeline


def preceded(before: str, now: str) -> bool:
    """Whether one identity is that of a server before the other."""
    former, latter = Server.of(before), Server.of(now)
    return former is not None and latter is not None and former.preceded(latter)


def arrived(database: Database, before: str) -> int:
    """Up to which position everything came here from the server that had this identity.

    The horizon is a row: it came with everything below it, or not at all.
    """
    former = Server.of(before)
    found = database.row("takeover", timeline=former.timeline if former else 0)["position"]
    return 0 if found is None else int(found)


def commits_lost(what: str, low: int, high: int, detail: str = "") -> SparkError:
    """What was read before is not all here."""
    return SparkError(
        "COMMITS_LOST",
        f"{what} stands at position {high}, but when this server took over only what is below {low} was sure to have "
        f"come: positions {low} to {high - 1} may be lost here, and other messages may have taken their place{detail}",
        {"from": low, "to": high},
    )
