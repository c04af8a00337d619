"""The PostgreSQL provider: every call of the contract is one function in the schema."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from queen.db import pool
from queen.durable.mailbox import DeadLetter
from queen.durable.messages import ActivityTask, OrchestratorMessage, encode_item
from queen.durable.model import (
    CapabilityFilter,
    LockedTask,
    OrchestrationItem,
    QueuePush,
    SessionConfig,
    TagFilter,
    TurnCommit,
)
from queen.durable.provider import UNTAGGED, ProviderError, StepTransaction
from queen.durable.providers.postgres.connection import Calls, Database, LentDatabase, Pooler
from queen.durable.providers.postgres.exchange import LISTENING_SECONDS, PostgresExchange
from queen.durable.providers.postgres.notices import Listener, concerns
from queen.durable.providers.postgres.requests import Finished, Look
from queen.durable.providers.postgres.schema import DEFAULT_SCHEMA, Schema
from queen.durable.providers.postgres.steps import open_step
from queen.durable.providers.postgres.turns import Turn, task_row
from queen.durable.providers.wake import Clock, Waiter, long_poll

__all__ = ["PostgresProvider"]

_DEAF_SECONDS = 0.25


class PostgresProvider(PostgresExchange):
    """Durable instances in a schema of their own, shared by any number of processes."""

    name = "postgres"
    supports_pushes = True

    def __init__(self, database: Calls, listen_url: str | None, clock: Clock | None) -> None:
        super().__init__(database, clock)
        self._listener = None if listen_url is None else Listener(listen_url, database.schema.name, self._hear)

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        clock: Clock | None = None,
        pool_size: int = 10,
        pooler: Pooler = "session",
        listen_url: str | None = None,
    ) -> "PostgresProvider":
        """Connect; the schema is made and migrated when missing. ``clock`` replaces the server's (tests).

        Behind a pooler in transaction mode say ``pooler="transaction"``; ``listen_url`` is then the server's own
        address for notifications, without which new work of other processes is looked for every 250 ms.
        """
        database = await Database.open(url, Schema(schema), pool_size=pool_size, pooler=pooler)
        try:
            server_ms = await database.value("connect", "server_clock")
        except BaseException:
            await database.close()
            raise
        opened = cls(database, listen_url or (url if pooler == "session" else None), clock)
        opened._server_clock.set(server_ms)
        return opened

    @classmethod
    def over(cls, database: pool.Database, *, schema: str = DEFAULT_SCHEMA) -> "PostgresProvider":
        """For a process that has connections already: to look at instances and steer them, not to run them.

        The schema must be there; other processes are told of new work, but this one does not listen.
        """
        return cls(LentDatabase(database, Schema(schema)), None, None)

    async def close(self) -> None:
        self._orchestrations.close()
        self._tasks.close()
        self._changes.notify_all()
        await self._finish_calls()
        if self._listener is not None:
            await self._listener.close()
        await self._database.close()

    def wake(self) -> None:
        self._orchestrations.notify()
        self._tasks.notify()

    def _fallback(self) -> float:
        listening = self._listener is not None and self._listener.healthy
        return LISTENING_SECONDS if listening else _DEAF_SECONDS

    def _hear(self, notice: str) -> None:
        if not notice:
            self.wake()
            self._changes.notify_all()
            return
        origin, queues, changed = notice.split(" ", 2)
        if origin == self._notices.origin:
            return
        if "o" in queues:
            self._orchestrations.notify()
        if "w" in queues:
            self._tasks.notify()
        if "c" in queues:
            self._tell_cancelled(lambda instance: concerns(changed, instance))
        for instance in self._changes.waiting():
            if concerns(changed, instance):
                self._changes.notify(instance)

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
        lows, highs = (None, None) if capability is None else capability.packed()
        needed = None if handlers is None or unknown_for_ms is not None else ["", *handlers]
        wanted = limit, lock_timeout_ms, lows, highs, needed, unknown_for_ms, owner

        async def look(waiter: Waiter) -> tuple[list[OrchestrationItem], int | None, int]:
            return await self._look(Look("item", waiter), self._give_back_items)

        return await long_poll(
            self._orchestrations,
            look,
            wanted=wanted,
            limit=limit,
            kind=(capability, handlers, unknown_for_ms, owner),
            poll_timeout_ms=poll_timeout_ms,
            fallback_seconds=self._fallback,
            give_back=self._give_back_items,
        )

    async def ack_orchestration_item(self, token: str, commit: TurnCommit) -> None:
        calls = self._pushing if commit.pushes else self._exchanges
        if not await calls.submit(Turn(token, commit)):
            raise ProviderError("ack_orchestration_item", "the lock is not held", code="lock_lost")

    async def abandon_orchestration_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        self._instances.pop(token, None)
        found = await self._database.call(
            "abandon_orchestration_item", "abandon_turn", token, delay_ms, int(ignore_attempt), self._given_now()
        )
        if not found:
            raise ProviderError("abandon_orchestration_item", "the lock is not held", code="lock_lost")
        self._orchestrations.notify(found[0][1])

    async def renew_orchestration_item_lock(self, token: str, extend_ms: int) -> None:
        operation = "renew_orchestration_item_lock"
        if not await self._database.call(operation, "renew_turn", token, extend_ms, self._given_now()):
            raise ProviderError(operation, "the lock is not held", code="lock_lost")

    async def enqueue_for_orchestrator(
        self, message: OrchestratorMessage, *, delay_ms: int = 0, dedup_id: str | None = None
    ) -> bool:
        return await self._enqueued.submit((message, delay_ms, dedup_id))

    async def announce(
        self, *, handlers: Sequence[str] = (), activities: Sequence[str] = (), forget_after_ms: int = 600_000
    ) -> None:
        queues = ["orchestrator"] * len(handlers) + ["worker"] * len(activities)
        names = [*handlers, *activities]
        await self._database.call("announce", "announce", queues, names, forget_after_ms, self._given_now())
        await self._database.call("announce", "forget_starts", self._database.schema.name, self._given_now())

    async def expire_orphans(self, keep_ms: int, *, limit: int = 100) -> list[str]:
        gone: list[str] = await self._database.value(
            "expire_orphans", "expire_orphans", keep_ms, limit, self._given_now()
        )
        return gone

    async def list_dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        found = await self._database.call("list_dead_letters", "mailbox_dead_letters", "orchestrator", limit)
        return [DeadLetter(row[0], row[4], row[1], row[2], row[3]) for row in found]

    async def enqueue_for_worker(self, task: ActivityTask) -> None:
        await self._database.call(
            "enqueue_for_worker",
            "enqueue_task",
            *task_row(task),
            self._given_now(),
        )
        self._tasks.notify()
        if (notice := self._notices.take("w")) is not None:
            await self._send_notice(notice)

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
        labels = None if tags.everything else [*sorted(tags.tags), *([""] if tags.untagged else [])]
        held = session or SessionConfig("")
        owner = session and session.owner
        needed = None if names is None or unknown_for_ms is not None else list(names)
        times = held.lock_timeout_ms, held.max_sessions
        wanted = limit, lock_timeout_ms, needed, unknown_for_ms, labels, owner, *times

        async def look(waiter: Waiter) -> tuple[list[LockedTask], int | None, int]:
            return await self._look(Look("task", waiter), self._give_back_tasks)

        return await long_poll(
            self._tasks,
            look,
            wanted=wanted,
            limit=limit,
            kind=(session, tags, names, unknown_for_ms),
            poll_timeout_ms=poll_timeout_ms,
            fallback_seconds=self._fallback,
            give_back=self._give_back_tasks,
            names=names if unknown_for_ms is None else None,
        )

    async def ack_work_item(
        self, token: str, completion: OrchestratorMessage | None = None, *, pushes: Sequence[QueuePush] = ()
    ) -> None:
        calls = self._pushing if pushes else self._exchanges
        if not await calls.submit(Finished(token, completion, pushes)):
            raise ProviderError("ack_work_item", "the lock is not held", code="lock_lost")

    def transaction(self, token: str) -> AbstractAsyncContextManager[StepTransaction]:
        return open_step(self._database, token, self._given_now(), self._orchestrations.notify)

    async def abandon_work_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        visible_at = await self._database.value(
            "abandon_work_item", "abandon_work_item", token, delay_ms, int(ignore_attempt), self._given_now()
        )
        if visible_at is None:
            raise ProviderError("abandon_work_item", "the lock is not held", code="lock_lost")
        self._tasks.notify(visible_at)

    async def record_progress(self, token: str, task: ActivityTask) -> None:
        await self._database.value("record_progress", "record_progress", token, encode_item(task))

    async def renew_work_item_lock(self, token: str, extend_ms: int) -> None:
        if await self.renew_work_item_locks([token], extend_ms):
            raise ProviderError("renew_work_item_lock", "the lock is not held", code="lock_lost")

    async def renew_work_item_locks(self, tokens: Sequence[str], extend_ms: int) -> list[str]:
        lost: list[str] = await self._database.value(
            "renew_work_item_locks", "renew_work_items", list(tokens), extend_ms, self._given_now()
        )
        return lost

    async def renew_session_lock(self, owners: Sequence[str], *, extend_ms: int, idle_timeout_ms: int) -> int:
        renewed: int = await self._database.value(
            "renew_session_lock", "renew_sessions", list(owners), extend_ms, idle_timeout_ms, self._given_now()
        )
        return renewed

    async def cleanup_orphaned_sessions(self) -> int:
        gone: int = await self._database.value("cleanup_orphaned_sessions", "cleanup_sessions", self._given_now())
        return gone
