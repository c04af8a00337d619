"""What passes between the runtime and a provider, apart from events and messages. No I/O, no decisions."""

import re
from functools import lru_cache
from typing import Literal

import msgspec

from queen.durable.events import HistoryEvent
from queen.durable.messages import ActivityTask, OrchestratorMessage

__all__ = [
    "ActivityKey",
    "CapabilityFilter",
    "CustomStatus",
    "DeleteCounts",
    "ExecutionInfo",
    "ExecutionMetadata",
    "ExecutionStatus",
    "InstanceFilter",
    "InstanceInfo",
    "InstancePage",
    "InstanceQuery",
    "InstanceStats",
    "InstanceTree",
    "KeyValue",
    "LockedTask",
    "OrchestrationItem",
    "PruneCounts",
    "PruneOptions",
    "QueueDepths",
    "QueuePush",
    "SessionConfig",
    "SystemMetrics",
    "TagFilter",
    "TurnCommit",
    "UndecodableMessage",
    "VersionRange",
    "pack_version",
    "unpack_version",
]

ExecutionStatus = Literal["Running", "Completed", "Failed", "Cancelled", "Parked", "ContinuedAsNew"]
# Attributes are keys of the instance, kept under names of their own.
ATTRIBUTE_PREFIX = "queen.attribute:"
ENDED = ("Completed", "Failed", "Cancelled")

MAX_FILTER_TAGS = 5
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+].*)?")


def pack_version(version: str) -> int:
    """A semver as one comparable integer: 20 bits each for major, minor and patch.

    >>> pack_version("1.2.3") < pack_version("1.10.0")
    True
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"version must look like 1.2.3, got {version!r}")
    major, minor, patch = (int(part) for part in match.groups())
    if max(major, minor, patch) >= 1 << 20:
        raise ValueError(f"version parts must be below 1048576, got {version!r}")
    return major << 40 | minor << 20 | patch


def unpack_version(packed: int) -> str:
    """Inverse of :func:`pack_version`.

    >>> unpack_version(pack_version("1.2.3"))
    '1.2.3'
    """
    return f"{packed >> 40}.{packed >> 20 & 0xFFFFF}.{packed & 0xFFFFF}"


class VersionRange(msgspec.Struct, frozen=True):
    """Runtime versions from ``lowest`` to ``highest``, both included."""

    lowest: str
    highest: str


class CapabilityFilter(msgspec.Struct, frozen=True):
    """Which pinned versions this runtime can replay. No ranges: nothing; no filter at all: anything."""

    ranges: tuple[VersionRange, ...] = ()

    def packed(self) -> tuple[list[int], list[int]]:
        """Lower and upper bounds as :func:`pack_version` integers."""
        lows, highs = _bounds(self.ranges)
        return list(lows), list(highs)


@lru_cache(maxsize=64)
def _bounds(ranges: tuple[VersionRange, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    lows = tuple(pack_version(item.lowest) for item in ranges)
    return lows, tuple(pack_version(item.highest) for item in ranges)


class SessionConfig(msgspec.Struct, frozen=True):
    """Who claims sessions, for how long, and how many. All slots of a process share one owner id."""

    owner: str
    lock_timeout_ms: int = 30_000
    max_sessions: int | None = None


class TagFilter(msgspec.Struct, frozen=True):
    """Which activities a worker takes: untagged ones, those with one of ``tags``, any, or none."""

    untagged: bool = True
    tags: frozenset[str] = frozenset()
    everything: bool = False

    @classmethod
    def default_only(cls) -> "TagFilter":
        """Untagged activities only: the default."""
        return cls()

    @classmethod
    def only(cls, *tags: str) -> "TagFilter":
        """Activities with one of these tags."""
        return cls(untagged=False, tags=_checked_tags(tags))

    @classmethod
    def default_and(cls, *tags: str) -> "TagFilter":
        """Untagged ones and these tags."""
        return cls(untagged=True, tags=_checked_tags(tags))

    @classmethod
    def any(cls) -> "TagFilter":
        """Every activity."""
        return cls(everything=True)

    @classmethod
    def none(cls) -> "TagFilter":
        """No activities at all."""
        return cls(untagged=False)

    def matches_nothing(self) -> bool:
        """Whether a worker with this filter never gets work."""
        return not (self.untagged or self.tags or self.everything)


def _checked_tags(tags: tuple[str, ...]) -> frozenset[str]:
    found = frozenset(tags)
    if not 1 <= len(found) <= MAX_FILTER_TAGS:
        raise ValueError(f"a tag filter names 1 to {MAX_FILTER_TAGS} tags, got {len(found)}")
    return found


class KeyValue(msgspec.Struct, frozen=True):
    """A value and when it was last written."""

    value: str
    updated_at_ms: int


class UndecodableMessage(msgspec.Struct, frozen=True):
    """A queued message that is not valid; it stays until acked with ``TurnCommit.dead_letters``."""

    message_id: int
    body: str
    error: str


class OrchestrationItem(msgspec.Struct, frozen=True, kw_only=True):
    """All visible messages of one instance, under one lock, with the history they apply to.

    ``name``/``version`` are the instance's own, or those of the start message for a new instance
    (``None`` when the batch has no decodable start). ``history_error`` is set, and ``history`` empty, when
    the stored history cannot be decoded. ``attempt`` is the highest delivery count in the batch, from 1.
    ``identity`` tells instances of the same id apart, when one was deleted and another started.
    ``status`` is that of the execution the history belongs to, ``None`` when a new one begins. ``left_out``: the
    history, ``last_event_id`` events long, was not read, because the caller may have it or because it is long.
    ``owned``: the caller committed the last turn.
    """

    instance: str
    token: str
    attempt: int
    name: str | None
    version: str | None
    execution_id: int
    history: list[HistoryEvent]
    messages: list[OrchestratorMessage]
    kv: dict[str, KeyValue] = {}
    history_error: str | None = None
    undecodable: tuple[UndecodableMessage, ...] = ()
    parent_instance: str | None = None
    is_new: bool = False
    status: ExecutionStatus | None = None
    identity: int = 0
    last_event_id: int = 0
    left_out: bool = False
    owned: bool = False


class LockedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A work item handed to a worker. With ``decode_error`` only its instance and ids are true."""

    task: ActivityTask
    token: str
    attempt: int
    decode_error: str | None = None


class ActivityKey(msgspec.Struct, frozen=True):
    """Names one scheduled activity: what a cancellation removes from the worker queue."""

    instance: str
    execution_id: int
    activity_id: int


class ExecutionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn says about its instance and execution; ``None`` leaves a value as it is.

    ``name`` and ``version`` together create or update the instance row. ``status`` ends the execution, but for
    ``Parked``: that one lasts until the next turn that does not say it again.
    """

    name: str | None = None
    version: str | None = None
    parent_instance: str | None = None
    status: Literal["Completed", "Failed", "Cancelled", "Parked", "ContinuedAsNew"] | None = None
    output: str | None = None
    pinned_version: str | None = None
    trace_id: str | None = None


class QueuePush(msgspec.Struct, frozen=True, kw_only=True):
    """A message for a Queen queue, stored in the same transaction as the ack (PostgreSQL only).

    ``payload`` is JSON text.
    """

    queue: str
    payload: str
    partition: str = "Default"
    transaction_id: str | None = None
    trace_id: str | None = None
    deliver_at_ms: int | None = None
    parent_id: str | None = None


class TurnCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a turn produced; committed whole or not at all.

    ``withdrawn_timers`` names timers nobody waits for any more. ``owner`` is who keeps the instance in memory.
    """

    execution_id: int
    history_delta: tuple[HistoryEvent, ...] = ()
    worker_items: tuple[ActivityTask, ...] = ()
    orchestrator_items: tuple[OrchestratorMessage, ...] = ()
    metadata: ExecutionMetadata = ExecutionMetadata()
    cancelled_activities: tuple[ActivityKey, ...] = ()
    pushes: tuple[QueuePush, ...] = ()
    dead_letters: tuple[UndecodableMessage, ...] = ()
    withdrawn_timers: tuple[int, ...] = ()
    owner: str | None = None


class CustomStatus(msgspec.Struct, frozen=True):
    """The status an instance set for itself; the version rises with every change."""

    value: str | None
    version: int


class InstanceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One instance with the state of its current execution."""

    instance: str
    name: str
    version: str
    current_execution_id: int
    status: ExecutionStatus
    output: str | None
    parent_instance: str | None
    created_at_ms: int
    updated_at_ms: int
    custom_status: str | None = None
    custom_status_version: int = 0
    trace_id: str | None = None


class ExecutionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an instance."""

    execution_id: int
    status: ExecutionStatus
    output: str | None
    started_at_ms: int
    completed_at_ms: int | None
    event_count: int
    pinned_version: str | None = None


Attribute = str | int | float | bool


class InstanceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which instances to list, newest first. ``cursor`` is the ``next_cursor`` of the page before."""

    name: str | None = None
    status: ExecutionStatus | None = None
    parent_instance: str | None = None
    trace_id: str | None = None
    created_from_ms: int | None = None
    created_before_ms: int | None = None
    id_prefix: str | None = None
    attributes: dict[str, Attribute] = {}
    limit: int = 100
    cursor: str | None = None

    def wanted_keys(self) -> tuple[list[str], list[str]]:
        """The keys that hold the wanted attributes, and their values as stored."""
        names = [f"{ATTRIBUTE_PREFIX}{name}" for name in self.attributes]
        return names, [msgspec.json.encode(value).decode() for value in self.attributes.values()]


class InstancePage(msgspec.Struct, frozen=True):
    """One page of a listing; ``next_cursor`` is ``None`` on the last."""

    instances: list[InstanceInfo]
    next_cursor: str | None


class InstanceTree(msgspec.Struct, frozen=True):
    """A root and all its descendants; ``ids`` lists the root first."""

    root: str
    ids: list[str]


class InstanceStats(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one instance: history of the current execution, carried queue events, live keys."""

    event_count: int
    history_bytes: int
    carried_events: int
    kv_keys: int
    kv_bytes: int


class SystemMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Totals by each instance's current execution; parked ones count as running, cancelled ones as failed."""

    instances: int
    executions: int
    events: int
    running: int
    completed: int
    failed: int


class QueueDepths(msgspec.Struct, frozen=True, kw_only=True):
    """Messages not locked by anybody. Timers wait in the orchestrator queue, so ``timer`` is always 0."""

    orchestrator: int
    worker: int
    timer: int = 0


class DeleteCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much a deletion removed."""

    instances: int = 0
    executions: int = 0
    events: int = 0
    messages: int = 0


class InstanceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which instances a bulk call touches: all conditions must hold; an empty ``instances`` means none."""

    instances: tuple[str, ...] | None = None
    completed_before_ms: int | None = None
    limit: int = 1000


class PruneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the current execution and ``keep_last`` - 1 before it (``None``, 0 and 1: the current only)."""

    keep_last: int | None = None
    completed_before_ms: int | None = None


class PruneCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much pruning removed."""

    instances: int = 0
    executions: int = 0
    events: int = 0
