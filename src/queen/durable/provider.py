"""The contract between the runtime and its store.

A provider stores; it never decides. It makes no event ids, execution ids or events. It looks into a turn's
delta only for custom status and key-value events, to keep their read models.

Waiting: the ``fetch_*`` calls long-poll. They return as soon as work is there: committed through the same
provider object (at once), by another process (LISTEN on PostgreSQL, a cheap look at the file on SQLite), or
falling due (timers, delays, expired locks: at that moment, not at the next poll). While nothing happens they
run no statement. Let ONE caller per queue fetch with ``limit`` = free slots rather than many with limit 1.

Every call raises :class:`ProviderError` and nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

from queen.durable.events import HistoryEvent
from queen.durable.mailbox import DeadLetter
from queen.durable.messages import ActivityTask, OrchestratorMessage
from queen.durable.model import (
    CapabilityFilter,
    CustomStatus,
    DeleteCounts,
    ExecutionInfo,
    InstanceFilter,
    InstanceInfo,
    InstancePage,
    InstanceQuery,
    InstanceStats,
    InstanceTree,
    KeyValue,
    LockedTask,
    OrchestrationItem,
    PruneCounts,
    PruneOptions,
    QueueDepths,
    QueuePush,
    SessionConfig,
    SystemMetrics,
    TagFilter,
    TurnCommit,
)

__all__ = ["NEWEST", "UNTAGGED", "Provider", "ProviderError", "StepTransaction"]

UNTAGGED = TagFilter()
NEWEST = InstanceQuery()


class ProviderError(Exception):
    """A store call failed.

    ``retryable``: busy, lock, connection, timeout, deadlock. Permanent: bad token, duplicate event, unknown
    instance, bad input. ``code`` is stable: ``lock_lost``, ``duplicate_event``, ``not_found``, ``refused``,
    ``invalid``, ``unavailable``, ``closed``.
    """

    def __init__(self, operation: str, message: str, *, retryable: bool = False, code: str = "invalid") -> None:
        super().__init__(f"{operation}: {message}")
        self.operation = operation
        self.message = message
        self.retryable = retryable
        self.code = code


class StepTransaction(ABC):
    """An open transaction: committed at the end of its block, rolled back when that raises."""

    connection: Any

    @abstractmethod
    async def finish(self, completion: OrchestratorMessage) -> None:
        """Delete the item and send its completion with the commit. Error: ``lock_lost``."""


class Provider(ABC):
    """Storage for durable instances. Open it with ``async with``; all calls belong to one event loop."""

    name: str
    supports_pushes: bool

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Wake every waiting fetch with an empty answer, finish running calls, release the store."""

    @abstractmethod
    def now_ms(self) -> int:
        """The clock that decides what is due and what has expired, in ms since 1970."""

    @abstractmethod
    def wake(self) -> None:
        """Make every waiting fetch look again now (for a clock that was moved by hand)."""

    @abstractmethod
    async def next_due_ms(self) -> int | None:
        """When the next waiting message of either queue becomes visible; ``None`` when nothing waits."""

    # -- orchestrator queue ---------------------------------------------------------------------------------

    @abstractmethod
    async def fetch_orchestration_items(
        self,
        *,
        lock_timeout_ms: int,
        poll_timeout_ms: int = 0,
        limit: int = 1,
        capability: CapabilityFilter | None = None,
        handlers: tuple[str, ...] | None = None,
        unknown_for_ms: int | None = None,
        owner: str | None = None,
    ) -> list[OrchestrationItem]:
        """Lock up to ``limit`` instances that have visible messages, longest-waiting first.

        Each lock has a fresh token and hides every message of its instance, present and future. All visible
        messages are handed out and their attempt counts raised. The capability filter looks at the pinned
        version before anything else is touched. Waits up to ``poll_timeout_ms`` for the first item; empty
        when there is none.

        ``handlers``: only instances whose code is among these (see ``handler_name``), and those nothing is known
        of. ``unknown_for_ms``: instead those that waited for so long for code that nobody has announced since.
        ``owner`` keeps instances in memory: a long history, or one it committed last, is left out.
        """

    @abstractmethod
    async def ack_orchestration_item(self, token: str, commit: TurnCommit) -> None:
        """Commit a whole turn in one transaction and release the instance.

        Deletes exactly the messages handed out under ``token`` (those in ``commit.dead_letters`` are kept
        aside). Errors, with nothing changed: ``lock_lost``, ``duplicate_event``, ``invalid``.
        """

    @abstractmethod
    async def abandon_orchestration_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        """Give the instance back, its messages in order, hidden for ``delay_ms``. Error: ``lock_lost``."""

    @abstractmethod
    async def renew_orchestration_item_lock(self, token: str, extend_ms: int) -> None:
        """Hold the lock for ``extend_ms`` from now. Error: ``lock_lost`` once it has expired."""

    @abstractmethod
    async def enqueue_for_orchestrator(
        self, message: OrchestratorMessage, *, delay_ms: int = 0, dedup_id: str | None = None
    ) -> bool:
        """Send a message; never creates the instance. A timer is visible from its fire time.

        With ``dedup_id`` the same id is accepted once per instance: ``False`` says it was a repeat.
        """

    @abstractmethod
    async def announce(
        self, *, handlers: Sequence[str] = (), activities: Sequence[str] = (), forget_after_ms: int = 600_000
    ) -> None:
        """Say which code a live worker has; what nobody has said for ``forget_after_ms`` is forgotten."""

    @abstractmethod
    async def expire_orphans(self, keep_ms: int, *, limit: int = 100) -> list[str]:
        """Move messages that waited ``keep_ms`` for an instance that never came to the dead letters.

        Returns the instances they were for.
        """

    @abstractmethod
    async def list_dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """Messages to instances that were put aside, oldest first."""

    # -- history --------------------------------------------------------------------------------------------

    @abstractmethod
    async def read(self, instance: str) -> list[HistoryEvent]:
        """Events of the latest execution, in order; empty for an unknown instance."""

    @abstractmethod
    async def read_with_execution(self, instance: str, execution_id: int) -> list[HistoryEvent]:
        """Events of one execution, in order."""

    @abstractmethod
    async def read_history_after(self, instance: str, execution_id: int, event_id: int) -> list[HistoryEvent]:
        """Events of one execution after ``event_id``, in order."""

    @abstractmethod
    async def append_with_execution(self, instance: str, execution_id: int, events: Sequence[HistoryEvent]) -> None:
        """Append outside of a turn (tests, fault injection). Error: ``duplicate_event``; never overwrites."""

    @abstractmethod
    async def latest_execution_id(self, instance: str) -> int | None:
        """``None`` for an unknown instance."""

    # -- worker queue ---------------------------------------------------------------------------------------

    @abstractmethod
    async def enqueue_for_worker(self, task: ActivityTask) -> None:
        """Queue an activity, visible at once."""

    @abstractmethod
    async def fetch_work_items(
        self,
        *,
        lock_timeout_ms: int,
        poll_timeout_ms: int = 0,
        limit: int = 1,
        session: SessionConfig | None = None,
        tags: TagFilter = UNTAGGED,
        names: tuple[str, ...] | None = None,
        unknown_for_ms: int | None = None,
    ) -> list[LockedTask]:
        """Lock up to ``limit`` visible items: higher priority first, then oldest.

        ``names``: only these activities. ``unknown_for_ms``: instead those that waited for so long for code that
        nobody has announced since.

        Without ``session`` only session-free items; with it also those of sessions the owner holds, or
        claims in the same transaction. Waits up to ``poll_timeout_ms`` for the first item.
        """

    @abstractmethod
    async def ack_work_item(
        self, token: str, completion: OrchestratorMessage | None = None, *, pushes: Sequence[QueuePush] = ()
    ) -> None:
        """Delete the item and send its completion in one transaction. Error: ``lock_lost``."""

    def on_cancelled(self, told: Callable[[Callable[[str], bool]], None]) -> Callable[[], None]:
        """Call ``told`` as soon as activities may have been cancelled elsewhere, with whether they are of an instance.

        A store that cannot tell leaves it to the renewal of locks. The answer ends it.
        """
        return lambda: None

    def transaction(self, token: str) -> AbstractAsyncContextManager[StepTransaction]:
        """A transaction of the caller's own that ends with the item: see ``StepTransaction``."""
        raise ProviderError("transaction", "a step in a transaction needs the PostgreSQL provider", code="refused")

    @abstractmethod
    async def abandon_work_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        """Give the item back, hidden for ``delay_ms``. Error: ``lock_lost``."""

    @abstractmethod
    async def record_progress(self, token: str, task: ActivityTask) -> None:
        """Keep how far a locked item is, for whoever gets it next; nothing happens once the lock is lost."""

    @abstractmethod
    async def renew_work_item_lock(self, token: str, extend_ms: int) -> None:
        """Hold the item for ``extend_ms`` from now. ``lock_lost`` is the cancellation signal."""

    @abstractmethod
    async def renew_work_item_locks(self, tokens: Sequence[str], extend_ms: int) -> list[str]:
        """Renew many at once; returns the tokens that are lost (cancelled, expired, deleted)."""

    @abstractmethod
    async def renew_session_lock(self, owners: Sequence[str], *, extend_ms: int, idle_timeout_ms: int) -> int:
        """Extend sessions held by ``owners`` and active within ``idle_timeout_ms``; returns how many."""

    @abstractmethod
    async def cleanup_orphaned_sessions(self) -> int:
        """Delete expired sessions with no queued items; returns how many."""

    # -- reads ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def get_custom_status(self, instance: str, last_seen_version: int = 0) -> CustomStatus | None:
        """The status if its version is above ``last_seen_version``."""

    @abstractmethod
    async def get_kv_value(self, instance: str, key: str) -> KeyValue | None:
        """The live value: previous executions overlaid by the current one."""

    @abstractmethod
    async def get_kv_all_values(self, instance: str) -> dict[str, KeyValue]:
        """All live values of an instance."""

    @abstractmethod
    async def wait_for_change(self, instance: str, *, timeout_ms: int, ended: bool = False) -> None:
        """Return when a turn of ``instance`` was committed, or after the timeout; may return early.

        With ``ended`` only the turn that completes or fails the instance counts.
        """

    @abstractmethod
    async def get_instance_info(self, instance: str) -> InstanceInfo | None:
        """``None`` when unknown."""

    @abstractmethod
    async def list_instances(self, query: InstanceQuery = NEWEST) -> InstancePage:
        """One page, newest first."""

    @abstractmethod
    async def list_executions(self, instance: str) -> list[ExecutionInfo]:
        """All executions, ascending; empty when unknown."""

    @abstractmethod
    async def get_execution_info(self, instance: str, execution_id: int) -> ExecutionInfo | None:
        """``None`` when unknown."""

    @abstractmethod
    async def get_instance_stats(self, instance: str) -> InstanceStats | None:
        """``None`` when unknown."""

    @abstractmethod
    async def get_system_metrics(self) -> SystemMetrics:
        """Totals over all instances."""

    @abstractmethod
    async def get_queue_depths(self) -> QueueDepths:
        """Unlocked messages per queue."""

    @abstractmethod
    async def list_children(self, instance: str) -> list[str]:
        """Direct sub-orchestrations, oldest first."""

    @abstractmethod
    async def get_parent_id(self, instance: str) -> str | None:
        """``None`` for a root. Error: ``not_found``."""

    @abstractmethod
    async def get_instance_tree(self, instance: str) -> InstanceTree:
        """The instance and all descendants; an unknown id yields itself alone."""

    # -- admin ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def delete_instance(self, instance: str, *, force: bool = False) -> DeleteCounts:
        """Delete a root and all descendants, atomically.

        Errors: ``not_found``; ``refused`` for a child, or for a tree still running without ``force``.
        """

    @abstractmethod
    async def delete_instances(self, selection: InstanceFilter) -> DeleteCounts:
        """Delete terminal roots that match; running ones are skipped."""

    @abstractmethod
    async def prune_executions(self, instance: str, options: PruneOptions) -> PruneCounts:
        """Delete old executions; never the current, never a running one. Error: ``not_found``."""

    @abstractmethod
    async def prune_executions_bulk(self, selection: InstanceFilter, options: PruneOptions) -> PruneCounts:
        """The same for many instances, running ones included."""
