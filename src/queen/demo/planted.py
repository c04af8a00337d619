"""What a demo planted, for people to look for and for tests to find."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class HotKey:
    """A value that far more messages carry than any other: a partition, or a field of the payload."""

    queue: str
    field: str
    key: str
    messages: int


@dataclass(frozen=True, slots=True)
class ErrorCluster:
    """Messages that died of the same error."""

    queue: str
    version: str
    error: str
    messages: int


@dataclass(frozen=True, slots=True)
class BlockedLane:
    """A partition in which one message kept others waiting."""

    queue: str
    partition: str
    group: str
    seq: int
    seconds: float


@dataclass(frozen=True, slots=True)
class KnownTrace:
    """A trace and the messages that decided how long it took."""

    trace_id: str
    path: list[str]
    seconds: float


@dataclass(slots=True)
class Planted:
    """Everything that was planted, and how much there is in all."""

    seed: int
    messages: int = 0
    deliveries: int = 0
    dead_letters: int = 0
    traces: int = 0
    since: str = ""
    until: str = ""
    hot_keys: list[HotKey] = field(default_factory=list)
    error_clusters: list[ErrorCluster] = field(default_factory=list)
    broken_traces: list[str] = field(default_factory=list)
    blocked_lanes: list[BlockedLane] = field(default_factory=list)
    known_traces: list[KnownTrace] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)
