"""The SQLite provider: the contract's calls, each one function on the database thread."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from queen.durable.messages import ActivityTask, OrchestratorMessage, encode_item, visible_from_ms
from queen.durable.model import (
    ENDED,
    CapabilityFilter,
    LockedTask,
    OrchestrationItem,
    QueuePush,
    SessionConfig,
    TagFilter,
    TurnCommit,
)
from queen.durable.provider import UNTAGGED, ProviderError
from queen.durable.providers.sqlite import orchestrator, worker
from queen.durable.providers.sqlite.database import Database
from queen.durable.providers.sqlite.queries import SqliteQueries
from queen.durable.providers.sqlite.statements import Statements
from queen.durable.providers.sqlite.watch import Watch
from queen.durable.providers.wake import Changes, Clock, Ride, Signal, Waiter, long_poll, system_clock

__all__ = ["SqliteProvider", "file_of"]

_FALLBACK_SECONDS = 5.0

Work = Callable[[Statements], orchestrator.Sent]


class SqliteProvider(SqliteQueries):
    """Durable instances in one SQLite file, shared by any number of processes, or in memory."""

    name = "sqlite"
    supports_pushes = False

    def __init__(self, database: Database, clock: Clock, path: Path | None) -> None:
        super().__init__(database, clock, Changes())
        self._orchestrations = Signal(clock)
        self._tasks = Signal(clock)
        self._seen_version: int | None = None
        self._looking: asyncio.Task[None] | None = None
        self._watch = None if path is None else Watch(str(path), self._is_watched, self._start_look)

    @classmethod
    async def open(cls, path: str | Path, *, clock: Clock = system_clock) -> "SqliteProvider":
        """Open a file, or a ``sqlite:`` URL; it is made and migrated when missing."""
        text = file_of(str(path))
        if text == ":memory:":
            return await cls.in_memory(clock=clock)
        return cls(await Database.open(text, clock), clock, Path(text))

    @classmethod
    async def in_memory(cls, *, clock: Clock = system_clock) -> "SqliteProvider":
        """A store that lives as long as this object."""
        return cls(await Database.open(":memory:", clock), clock, None)

    async def close(self) -> None:
        self._orchestrations.close()
        self._tasks.close()
        self._changes.notify_all()
        if self._watch is not None:
            await asyncio.to_thread(self._watch.close)
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._database.close()

    def now_ms(self) -> int:
        return self._clock()

    def wake(self) -> None:
        self._orchestrations.notify()
        self._tasks.notify()

    def _is_watched(self) -> bool:
        return not (self._orchestrations.idle and self._tasks.idle and self._changes.idle)

    def _start_look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        with contextlib.suppress(ProviderError):
            await self._compare_versions()

    async def _compare_versions(self) -> None:
        version = await self._database.read("watch", lambda store: int(store.value("data_version")))
        if version != self._seen_version:
            self._seen_version = version
            self.wake()
            self._changes.notify_all()

    def _tell(self, sent: orchestrator.Sent, *, ended: bool = False, but: Signal | None = None) -> None:
        if sent.orchestrator_at is not None and but is not self._orchestrations:
            self._orchestrations.notify(sent.orchestrator_at)
        if sent.tasks and but is not self._tasks:
            self._tasks.notify(names=sent.names)
        if sent.instance is not None:
            self._changes.notify(sent.instance, ended=ended)

    async def _commit(
        self,
        name: str,
        work: Work,
        boarding: Signal | None,
        *,
        durable: bool = True,
        ended: bool = False,
        names: Collection[str] | None = None,
    ) -> orchestrator.Sent:
        """Commit, and in the same transaction carry out a fetch that waits for what is being committed."""
        ride = None if boarding is None else boarding.board(names)
        if boarding is None or ride is None:
            try:
                sent = await self._database.write(name, work, durable=durable)
            except asyncio.CancelledError:
                self.wake()
                raise
            self._tell(sent, ended=ended)
            return sent
        carrying = asyncio.create_task(self._carry(name, work, boarding, ride, durable=durable, ended=ended))
        return await asyncio.shield(carrying)

    async def _carry(
        self, name: str, work: Work, boarding: Signal, ride: Ride, *, durable: bool, ended: bool
    ) -> orchestrator.Sent:
        try:
            sent, fetched = await self._database.write_then(name, work, ride.waiter.wanted, durable=durable)
        except BaseException:
            ride.decline()
            raise
        emptied = fetched is not None and len(fetched[0]) < ride.waiter.limit
        self._tell(sent, ended=ended, but=boarding if emptied else None)
        if emptied:
            boarding.notify_others(ride.waiter, sent.names if boarding is self._tasks else None)
        if fetched is None:
            ride.decline()
        elif not ride.give(*fetched):
            await (self._give_back_items if boarding is self._orchestrations else self._give_back_tasks)(fetched[0])
        return sent

    def _boarding(self, commit: TurnCommit) -> Signal | None:
        if commit.worker_items:
            return self._tasks
        now = self._clock()
        sends = any(visible_from_ms(message) <= now for message in commit.orchestrator_items)
        return self._orchestrations if sends else None

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
        wanted = orchestrator.Wanted(lock_timeout_ms, limit, capability, handlers, unknown_for_ms, owner)

        def fetch(store: Statements) -> orchestrator.Fetched:
            return orchestrator.fetch(store, wanted)

        async def look(_: Waiter) -> tuple[list[OrchestrationItem], int | None, int]:
            news = self._orchestrations.news
            found = await self._database.fetch(
                "fetch_orchestration_items",
                fetch,
                probe=lambda store: orchestrator.is_idle(store, wanted),
                undo=lambda fetched: self._give_back_items(fetched[0]),
            )
            return *found, news

        return await long_poll(
            self._orchestrations,
            look,
            wanted=fetch,
            limit=limit,
            kind=(capability, handlers, unknown_for_ms, owner),
            poll_timeout_ms=poll_timeout_ms,
            fallback_seconds=_fallback,
            give_back=self._give_back_items,
        )

    async def _give_back_items(self, items: list[OrchestrationItem]) -> None:
        for item in items:
            await self.abandon_orchestration_item(item.token, ignore_attempt=True)

    async def ack_orchestration_item(self, token: str, commit: TurnCommit) -> None:
        self._refuse_pushes("ack_orchestration_item", commit.pushes)
        await self._commit(
            "ack_orchestration_item",
            lambda store: orchestrator.ack(store, token, commit),
            self._boarding(commit),
            ended=commit.metadata.status in ENDED,
            names={task.name for task in commit.worker_items} or None,
        )

    async def abandon_orchestration_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        self._tell(
            await self._database.write(
                "abandon_orchestration_item",
                lambda store: orchestrator.abandon(store, token, delay_ms, ignore_attempt=ignore_attempt),
                durable=False,
            )
        )

    async def renew_orchestration_item_lock(self, token: str, extend_ms: int) -> None:
        await self._database.write(
            "renew_orchestration_item_lock",
            lambda store: orchestrator.renew(store, token, extend_ms),
            durable=False,
        )

    async def enqueue_for_orchestrator(
        self, message: OrchestratorMessage, *, delay_ms: int = 0, dedup_id: str | None = None
    ) -> bool:
        sent = await self._commit(
            "enqueue_for_orchestrator",
            lambda store: orchestrator.enqueue(store, message, delay_ms, dedup_id),
            self._orchestrations if delay_ms <= 0 else None,
        )
        return sent.accepted

    async def announce(
        self, *, handlers: Sequence[str] = (), activities: Sequence[str] = (), forget_after_ms: int = 600_000
    ) -> None:
        def note(store: Statements) -> None:
            now = store.now_ms()
            for queue, names in ((orchestrator.QUEUE, handlers), ("worker", activities)):
                store.change_many("announce", [{"queue": queue, "name": name, "now": now} for name in names])
            store.change("forget_handlers", before=now - forget_after_ms)
            store.change("forget_starts", now=now)

        await self._database.write("announce", note, durable=False)

    async def expire_orphans(self, keep_ms: int, *, limit: int = 100) -> list[str]:
        return await self._database.write(
            "expire_orphans", lambda store: orchestrator.expire_orphans(store, keep_ms, limit)
        )

    async def enqueue_for_worker(self, task: ActivityTask) -> None:
        await self._database.write("enqueue_for_worker", lambda store: worker.enqueue(store, task))
        self._tasks.notify()

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
        wanted = worker.Wanted(lock_timeout_ms, limit, session, tags, names, unknown_for_ms)

        def fetch(store: Statements) -> tuple[list[LockedTask], int | None]:
            return worker.fetch(store, wanted)

        async def look(_: Waiter) -> tuple[list[LockedTask], int | None, int]:
            news = self._tasks.news
            found = await self._database.fetch(
                "fetch_work_items",
                fetch,
                probe=lambda store: worker.is_idle(store, wanted),
                undo=lambda fetched: self._give_back_tasks(fetched[0]),
            )
            return *found, news

        return await long_poll(
            self._tasks,
            look,
            wanted=fetch,
            limit=limit,
            kind=(session, tags, names, unknown_for_ms),
            poll_timeout_ms=poll_timeout_ms,
            fallback_seconds=_fallback,
            give_back=self._give_back_tasks,
            names=names if unknown_for_ms is None else None,
        )

    async def _give_back_tasks(self, items: list[LockedTask]) -> None:
        for item in items:
            await self.abandon_work_item(item.token, ignore_attempt=True)

    async def ack_work_item(
        self, token: str, completion: OrchestratorMessage | None = None, *, pushes: Sequence[QueuePush] = ()
    ) -> None:
        self._refuse_pushes("ack_work_item", pushes)
        await self._commit(
            "ack_work_item",
            lambda store: worker.ack(store, token, completion),
            None if completion is None else self._orchestrations,
            durable=False,
        )

    async def abandon_work_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        visible_at = await self._database.write(
            "abandon_work_item",
            lambda store: worker.abandon(store, token, delay_ms, ignore_attempt=ignore_attempt),
            durable=False,
        )
        self._tasks.notify(visible_at)

    async def record_progress(self, token: str, task: ActivityTask) -> None:
        body = encode_item(task)
        await self._database.write(
            "record_progress", lambda store: store.change("record_progress", token=token, body=body), durable=False
        )

    async def renew_work_item_lock(self, token: str, extend_ms: int) -> None:
        if await self.renew_work_item_locks([token], extend_ms):
            raise ProviderError("renew_work_item_lock", "the lock is not held", code="lock_lost")

    async def renew_work_item_locks(self, tokens: Sequence[str], extend_ms: int) -> list[str]:
        return await self._database.write(
            "renew_work_item_locks", lambda store: worker.renew(store, tokens, extend_ms), durable=False
        )

    async def renew_session_lock(self, owners: Sequence[str], *, extend_ms: int, idle_timeout_ms: int) -> int:
        return await self._database.write(
            "renew_session_lock",
            lambda store: worker.renew_sessions(store, owners, extend_ms, idle_timeout_ms),
            durable=False,
        )

    async def cleanup_orphaned_sessions(self) -> int:
        return await self._database.write(
            "cleanup_orphaned_sessions", lambda store: store.change("cleanup_sessions", now=store.now_ms())
        )

    def _refuse_pushes(self, operation: str, pushes: Sequence[QueuePush]) -> None:
        if pushes:
            raise ProviderError(operation, "pushes to queues need the PostgreSQL provider", code="refused")


def file_of(url: str) -> str:
    """The file a path or a ``sqlite:`` URL names; ``:memory:`` when it names none."""
    if url.startswith("sqlite:"):
        url = url.removeprefix("sqlite:").removeprefix("//").partition("?")[0]
    return url or ":memory:"


def _fallback() -> float:
    return _FALLBACK_SECONDS
