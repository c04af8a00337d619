"""The PostgreSQL provider: every call of the contract is one function in the schema."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from queen.db import pool
from queen.durable.messages import ActivityTask, OrchestratorMessage, encode_item, visible_from_ms
from queen.durable.model import (
    CapabilityFilter,
    LockedTask,
    OrchestrationItem,
    QueuePush,
    SessionConfig,
    TagFilter,
    TurnCommit,
)
from queen.durable.provider import UNTAGGED, ProviderError
from queen.durable.providers.postgres.batching import Batcher
from queen.durable.providers.postgres.connection import Calls, Database, LentDatabase, Pooler, Row
from queen.durable.providers.postgres.notices import Listener, Notices, concerns
from queen.durable.providers.postgres.queries import PostgresQueries
from queen.durable.providers.postgres.schema import DEFAULT_SCHEMA, Schema
from queen.durable.providers.postgres.turns import (
    Turn,
    columns,
    message_row,
    push_row,
    read_item,
    turn_parameters,
)
from queen.durable.providers.rows import locked_task
from queen.durable.providers.wake import Clock, Ride, Signal, long_poll

__all__ = ["PostgresProvider"]

_LISTENING_SECONDS = 5.0
_DEAF_SECONDS = 0.25
_AGAIN_MS = 20
_TASK = ("body", "attempt", "instance", "execution_id", "activity_id")

Item = TypeVar("Item")
Finished = tuple[str, OrchestratorMessage | None, Sequence[QueuePush]]
Enqueued = tuple[OrchestratorMessage, int, str | None]


class PostgresProvider(PostgresQueries):
    """Durable instances in a schema of their own, shared by any number of processes."""

    name = "postgres"
    supports_pushes = True

    def __init__(self, database: Calls, listen_url: str | None, clock: Clock | None) -> None:
        super().__init__(database, clock)
        self._orchestrations = Signal(self.now_ms)
        self._tasks = Signal(self.now_ms)
        self._instances: dict[str, str] = {}
        self._ahead = 0
        self._turns = Batcher[Turn, bool](self._ack_turns)
        self._finished = Batcher[Finished, bool](self._ack_work_items)
        self._enqueued = Batcher[Enqueued, bool](self._enqueue_messages, lanes=1)
        self._notices = Notices(self._send_notice)
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
        return cls(database, listen_url or (url if pooler == "session" else None), clock)

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
        for batcher in (self._turns, self._finished, self._enqueued):
            await batcher.close()
        await self._notices.close()
        if self._listener is not None:
            await self._listener.close()
        await self._database.close()

    def wake(self) -> None:
        self._orchestrations.notify()
        self._tasks.notify()

    def _fallback(self) -> float:
        listening = self._listener is not None and self._listener.healthy
        return _LISTENING_SECONDS if listening else _DEAF_SECONDS

    async def _send_notice(self, notice: str) -> None:
        with contextlib.suppress(ProviderError):
            await self._database.call("notify", "notify", self._database.schema.name, notice)

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
        for instance in self._changes.waiting():
            if concerns(changed, instance):
                self._changes.notify(instance)

    def _soon(self, visible_at: int) -> bool:
        return visible_at <= self.now_ms() + _LISTENING_SECONDS * 1000

    async def fetch_orchestration_items(
        self,
        *,
        lock_timeout_ms: int,
        poll_timeout_ms: int = 0,
        limit: int = 1,
        capability: CapabilityFilter | None = None,
    ) -> list[OrchestrationItem]:
        lows, highs = (None, None) if capability is None else capability.packed()
        wanted = limit, lock_timeout_ms, lows, highs

        async def look() -> tuple[list[OrchestrationItem], int | None]:
            parameters = *wanted, self._given_now()
            return self._read_items(await self._fetch("fetch_orchestrations", parameters, self._give_back_items))

        return await long_poll(
            self._orchestrations,
            look,
            wanted=wanted,
            limit=limit,
            kind=capability,
            poll_timeout_ms=poll_timeout_ms,
            fallback_seconds=self._fallback,
        )

    def _read_items(self, rows: list[Row]) -> tuple[list[OrchestrationItem], int | None]:
        items = [read_item(row) for row in rows[:-1]]
        self._instances.update((item.token, item.instance) for item in items)
        return items, self._due(rows[-1])

    def _read_tasks(self, rows: list[Row]) -> tuple[list[LockedTask], int | None]:
        return [locked_task(row["token"], [row[name] for name in _TASK]) for row in rows[:-1]], self._due(rows[-1])

    async def _commit(
        self, operation: str, statement: str, parameters: Sequence[Any], count: int, boarding: Signal | None
    ) -> tuple[list[Row], Signal | None]:
        """Commit, and in the same transaction carry out a fetch that waits for what is being committed.

        Answers the commit's ``count`` rows, and the queue that nobody need look at any more.
        """
        ride = None if boarding is None else boarding.board()
        if boarding is None or ride is None:
            return await self._database.call(operation, statement, *parameters), None
        along = "fetch_items" if boarding is self._orchestrations else "fetch_tasks"
        try:
            rows = await self._database.call(operation, f"{statement}_{along}", *parameters, *ride.wanted)
        except BaseException:
            ride.decline()
            raise
        emptied = await self._arrive(boarding, ride, rows[count:])
        return rows[:count], boarding if emptied else None

    async def _arrive(self, boarding: Signal, ride: Ride, rows: list[Row]) -> bool:
        emptied = len(rows) - 1 < ride.limit
        if emptied:
            boarding.notify_others(ride)
        if boarding is self._orchestrations:
            if not ride.give(*self._read_items(rows)):
                await self._give_back_items(rows)
        elif not ride.give(*self._read_tasks(rows)):
            await self._give_back_tasks(rows)
        return emptied

    def _due(self, end: Any) -> int | None:
        """When to look again, by our own clock: the server's may be ahead or behind."""
        now = self.now_ms()
        self._ahead = end["server_now"] - now
        if end["again"]:
            return now + _AGAIN_MS
        return None if end["next_due"] is None else end["next_due"] - self._ahead

    async def _fetch(
        self, statement: str, parameters: Sequence[Any], undo: Callable[[list[Any]], Awaitable[None]]
    ) -> list[Any]:
        fetching = asyncio.ensure_future(self._database.call(statement, statement, *parameters))
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            with contextlib.suppress(ProviderError):
                await undo(await fetching)
            raise

    async def _give_back_items(self, rows: list[Any]) -> None:
        for row in rows[:-1]:
            await self.abandon_orchestration_item(row["token"], ignore_attempt=True)

    async def ack_orchestration_item(self, token: str, commit: TurnCommit) -> None:
        if not await self._turns.submit(Turn(token, commit)):
            raise ProviderError("ack_orchestration_item", "the lock is not held", code="lock_lost")

    async def _ack_turns(self, turns: list[Turn]) -> list[bool]:
        visible = [visible_from_ms(message) for turn in turns for message in turn.commit.orchestrator_items]
        works = any(turn.commit.worker_items for turn in turns)
        queues = "o" * any(map(self._soon, visible)) + "w" * works
        changed = [self._instances[turn.token] for turn in turns if turn.token in self._instances]
        notice = self._notices.take(queues, changed)
        boarding = self._tasks if works else self._orchestrations if min(visible, default=1) <= 0 else None
        parameters = *turn_parameters(turns), *self._tail(notice)
        rows, emptied = await self._commit("ack_orchestration_item", "ack_turns", parameters, len(turns), boarding)
        visible += [row["ready_at"] - self._ahead for row in rows if row["ready_at"] is not None]
        if visible and emptied is not self._orchestrations:
            self._orchestrations.notify(min(visible))
        if works and emptied is not self._tasks:
            self._tasks.notify()
        acked = [row[0] for row in rows]
        for turn, instance in zip(turns, acked, strict=True):
            self._instances.pop(turn.token, None)
            if instance is not None:
                self._changes.notify(instance, ended=turn.commit.metadata.status in ("Completed", "Failed"))
        return [instance is not None for instance in acked]

    def _tail(self, notice: str | None) -> tuple[int | None, str, str | None]:
        return self._given_now(), self._database.schema.name, notice

    async def abandon_orchestration_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        self._instances.pop(token, None)
        found = await self._database.call(
            "abandon_orchestration_item", "abandon_turn", token, delay_ms, int(ignore_attempt), self._given_now()
        )
        if not found:
            raise ProviderError("abandon_orchestration_item", "the lock is not held", code="lock_lost")
        self._orchestrations.notify(found[0][1] - self._ahead)

    async def renew_orchestration_item_lock(self, token: str, extend_ms: int) -> None:
        operation = "renew_orchestration_item_lock"
        if not await self._database.call(operation, "renew_turn", token, extend_ms, self._given_now()):
            raise ProviderError(operation, "the lock is not held", code="lock_lost")

    async def enqueue_for_orchestrator(
        self, message: OrchestratorMessage, *, delay_ms: int = 0, dedup_id: str | None = None
    ) -> bool:
        return await self._enqueued.submit((message, delay_ms, dedup_id))

    async def _enqueue_messages(self, enqueued: list[Enqueued]) -> list[bool]:
        rows = [(*message_row(message), delay_ms, dedup_id) for message, delay_ms, dedup_id in enqueued]
        notice = self._notices.take("o") if any(self._soon(row[3] + row[4]) for row in rows) else None
        boarding = self._orchestrations if any(row[3] + row[4] <= 0 for row in rows) else None
        parameters = *columns(rows, 6), *self._tail(notice)
        stored, emptied = await self._commit(
            "enqueue_for_orchestrator", "enqueue_messages", parameters, len(rows), boarding
        )
        if emptied is None:
            self._orchestrations.notify(min(row["visible_at"] for row in stored) - self._ahead)
        return [row["accepted"] for row in stored]

    async def enqueue_for_worker(self, task: ActivityTask) -> None:
        await self._database.call(
            "enqueue_for_worker",
            "enqueue_task",
            task.instance,
            task.execution_id,
            task.activity_id,
            task.session_id,
            task.tag or "",
            task.priority,
            encode_item(task),
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
    ) -> list[LockedTask]:
        named = None if tags.everything else [*sorted(tags.tags), *([""] if tags.untagged else [])]
        held = session or SessionConfig("")
        owner = session and session.owner
        wanted = limit, lock_timeout_ms, named, owner, held.lock_timeout_ms, held.max_sessions

        async def look() -> tuple[list[LockedTask], int | None]:
            parameters = *wanted, self._given_now()
            return self._read_tasks(await self._fetch("fetch_work_items", parameters, self._give_back_tasks))

        return await long_poll(
            self._tasks,
            look,
            wanted=wanted,
            limit=limit,
            kind=(session, tags),
            poll_timeout_ms=poll_timeout_ms,
            fallback_seconds=self._fallback,
        )

    async def _give_back_tasks(self, rows: list[Any]) -> None:
        for row in rows[:-1]:
            await self.abandon_work_item(row["token"], ignore_attempt=True)

    async def ack_work_item(
        self, token: str, completion: OrchestratorMessage | None = None, *, pushes: Sequence[QueuePush] = ()
    ) -> None:
        if not await self._finished.submit((token, completion, pushes)):
            raise ProviderError("ack_work_item", "the lock is not held", code="lock_lost")

    async def _ack_work_items(self, finished: list[Finished]) -> list[bool]:
        nothing = (None, None, None, 0)
        rows = [(token, *(nothing if done is None else message_row(done))) for token, done, _ in finished]
        pushed = [(n, *push_row(push)) for n, (_, _, pushes) in enumerate(finished, start=1) for push in pushes]
        sends = any(row[1] is not None for row in rows)
        notice = self._notices.take("o") if sends else None
        parameters = *columns(rows, 5), *columns(pushed, 8), *self._tail(notice)
        boarding = self._orchestrations if sends else None
        acked, emptied = await self._commit("ack_work_item", "ack_work_items", parameters, len(rows), boarding)
        if sends and emptied is None:
            self._orchestrations.notify()
        return [row["held"] for row in acked]

    async def abandon_work_item(self, token: str, *, delay_ms: int = 0, ignore_attempt: bool = False) -> None:
        visible_at = await self._database.value(
            "abandon_work_item", "abandon_work_item", token, delay_ms, int(ignore_attempt), self._given_now()
        )
        if visible_at is None:
            raise ProviderError("abandon_work_item", "the lock is not held", code="lock_lost")
        self._tasks.notify(visible_at - self._ahead)

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
