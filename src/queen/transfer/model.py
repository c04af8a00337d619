"""What a transfer is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol
from uuid import UUID

Version = Literal["v2", "v3"]
Phase = Literal["copying", "copied", "closing", "done", "returning", "returned"]

OLD: Final = "queen"
NEXT: Final = "queen_next"
HIGHEST: Final = UUID(int=2**128 - 1)


def aside(version: Version) -> str:
    """The schema that the source is renamed to at the cutover."""
    return f"queen_{version}"


class Progress(Protocol):
    """Hears how far a step is; `queen.cli.progress.Bar` is one."""

    def step(self, name: str, done: int, total: int | None) -> None:
        """So many of so many are done; None: nobody knows of how many."""


class Quiet:
    """Nobody listens."""

    def step(self, name: str, done: int, total: int | None) -> None:
        """Hear nothing."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition on both sides: the id it had in the earlier schema, and the new one."""

    former: UUID
    id: int


@dataclass(slots=True)
class Change:
    """What has to be brought over of one partition: messages from `since` on, and what goes with them."""

    partition: Partition
    since: datetime | None = None
    removed_since: datetime | None = None
    removed_until: datetime | None = None
    dead_letters: bool = True
    traces: bool = True
    entries: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class State:
    """How far a transfer is."""

    version: Version
    source: str
    phase: Phase
    begun_at: datetime
    copied_at: datetime | None
    cut_at: datetime | None
    returned_at: datetime | None
    pause_ms: float | None
    last_pos: int | None
    last_dead_letter: int | None


def formers(partitions: Sequence[Partition]) -> list[UUID]:
    """The ids of the earlier schema."""
    return [partition.former for partition in partitions]


def ids(partitions: Sequence[Partition]) -> list[int]:
    """The new ids."""
    return [partition.id for partition in partitions]
