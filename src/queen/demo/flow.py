"""Orders, and the messages that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from queen.demo.shop import Defect, Shape


@dataclass(slots=True, eq=False)
class Sent:
    """One message, and what became of it. Moments are microseconds."""

    id: UUID
    order: Order
    place: int
    stage: int
    partition: str
    payload: dict[str, object]
    parent: Sent | None
    created: int
    seq: int = 0
    parent_id: UUID | None = None
    defect: Defect | None = None
    stumbles: bool = False
    slow: int = 0
    handled: int | None = None
    finished: int = 0
    error: str | None = None


@dataclass(slots=True, eq=False)
class Order:
    """One order and what is to become of it."""

    trace: UUID
    number: str
    customer: str
    version: str
    start: int
    shape: Shape
    defect: Defect | None = None
    broken: bool = False
    sent: list[Sent] = field(default_factory=list)
