"""How a worker behaves; every value has a safe default."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, field

from queen.durable.model import CapabilityFilter, TagFilter, VersionRange

RUNTIME_VERSION = "1.0.0"


def _node_id() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def _up_to_this_version() -> CapabilityFilter:
    return CapabilityFilter((VersionRange("0.0.0", RUNTIME_VERSION),))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """All times in milliseconds.

    Instances are kept in memory between their turns: at most `sticky_instances`, with `sticky_events` events in all
    (0: none). Code that no live worker has announced for `unregistered_after_ms` is tried, backed off and failed in
    the end. Messages to instances that never come are kept for `orphans_kept_ms`, then put among the dead letters.
    Instances that ended are deleted after `retention_ms`, with their children and history.
    """

    orchestration_concurrency: int = 16
    worker_concurrency: int = 16
    max_attempts: int = 10
    orchestrator_lock_timeout_ms: int = 5_000
    orchestrator_lock_renewal_buffer_ms: int = 2_000
    worker_lock_timeout_ms: int = 30_000
    worker_lock_renewal_buffer_ms: int = 5_000
    session_lock_timeout_ms: int = 30_000
    session_lock_renewal_buffer_ms: int = 5_000
    session_idle_timeout_ms: int = 300_000
    max_sessions_per_runtime: int = 10
    poll_timeout_ms: int = 30_000
    cancellation_grace_ms: int = 10_000
    unregistered_after_ms: int = 60_000
    unregistered_backoff_ms: int = 1_000
    unregistered_backoff_cap_ms: int = 60_000
    sticky_instances: int = 500
    sticky_events: int = 100_000
    orphans_kept_ms: int = 7 * 24 * 3_600_000
    retention_ms: int | None = None
    housekeeping_ms: int = 30_000
    node_id: str = field(default_factory=_node_id)
    tags: TagFilter = field(default_factory=TagFilter)
    runtime_version: str = RUNTIME_VERSION
    capability: CapabilityFilter | None = field(default_factory=_up_to_this_version)

    def __post_init__(self) -> None:
        for name in ("orchestration_concurrency", "worker_concurrency", "max_attempts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("sticky_instances", "sticky_events", "orphans_kept_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if self.retention_ms is not None and self.retention_ms < 0:
            raise ValueError(f"retention_ms must be at least 0, or None for ever, got {self.retention_ms}")
        for name in ("unregistered_after_ms", "housekeeping_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("orchestrator_lock_timeout_ms", "worker_lock_timeout_ms", "session_lock_timeout_ms"):
            if getattr(self, name) < 100:
                raise ValueError(f"{name} must be at least 100, got {getattr(self, name)}")

    def unregistered_delay_ms(self, attempt: int) -> int:
        """How long an item nobody here can run is left alone, by the number of attempts so far."""
        return int(min(self.unregistered_backoff_ms * 2.0 ** min(attempt - 1, 20), self.unregistered_backoff_cap_ms))


def renewal_interval(timeout_ms: int, buffer_ms: int) -> float:
    """Seconds between renewals: shortly before the end of long locks, half-way through short ones."""
    if timeout_ms >= 15_000:
        return max(timeout_ms - buffer_ms, timeout_ms / 2) / 1000
    return max(timeout_ms / 2, min(1_000, timeout_ms / 3)) / 1000
