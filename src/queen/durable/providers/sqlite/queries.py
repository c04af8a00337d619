"""Reads and admin of the SQLite provider."""

from collections.abc import Sequence

from queen.durable.events import HistoryEvent
from queen.durable.mailbox import DeadLetter
from queen.durable.model import (
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
    PruneCounts,
    PruneOptions,
    QueueDepths,
    SystemMetrics,
)
from queen.durable.provider import NEWEST, Provider
from queen.durable.providers import rows
from queen.durable.providers.sqlite import admin, orchestrator, reads
from queen.durable.providers.sqlite.database import Database
from queen.durable.providers.sqlite.statements import Statements
from queen.durable.providers.wake import Changes, Clock

__all__ = ["SqliteQueries"]


class SqliteQueries(Provider):
    """Everything that is not a queue."""

    def __init__(self, database: Database, clock: Clock, changes: Changes) -> None:
        self._database = database
        self._clock = clock
        self._changes = changes

    async def next_due_ms(self) -> int | None:
        return await self._database.read("next_due_ms", reads.next_due)

    async def read(self, instance: str) -> list[HistoryEvent]:
        def latest(store: Statements) -> list[str]:
            execution_id = store.value("latest_execution", instance=instance)
            return _texts(store, instance, execution_id)

        return rows.history("read", await self._database.read("read", latest))

    async def read_with_execution(self, instance: str, execution_id: int) -> list[HistoryEvent]:
        texts = await self._database.read("read", lambda store: _texts(store, instance, execution_id))
        return rows.history("read_with_execution", texts)

    async def read_history_after(self, instance: str, execution_id: int, event_id: int) -> list[HistoryEvent]:
        where = {"instance": instance, "execution_id": execution_id, "event_id": event_id}
        found = await self._database.read("read", lambda store: store.rows("read_history_after", **where))
        return rows.history("read_history_after", [row[0] for row in found])

    async def list_dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        queue = orchestrator.QUEUE
        found = await self._database.read(
            "list_dead_letters", lambda store: store.rows("list_dead_letters", queue=queue, limit=limit)
        )
        return [DeadLetter(row[0], row[4], row[1], _bytes(row[2]), row[3]) for row in found]

    async def append_with_execution(self, instance: str, execution_id: int, events: Sequence[HistoryEvent]) -> None:
        await self._database.write(
            "append_with_execution",
            lambda store: orchestrator.append(store, "append_with_execution", instance, execution_id, events),
        )

    async def latest_execution_id(self, instance: str) -> int | None:
        found: int | None = await self._database.read(
            "latest_execution_id", lambda store: store.value("latest_execution", instance=instance)
        )
        return found

    async def get_custom_status(self, instance: str, last_seen_version: int = 0) -> CustomStatus | None:
        return await self._database.read(
            "get_custom_status", lambda store: reads.custom_status(store, instance, last_seen_version)
        )

    async def get_kv_value(self, instance: str, key: str) -> KeyValue | None:
        found = await self._database.read("get_kv_value", lambda store: reads.kv_values(store, instance, key))
        return found.get(key)

    async def get_kv_all_values(self, instance: str) -> dict[str, KeyValue]:
        return await self._database.read("get_kv_all_values", lambda store: reads.kv_values(store, instance, None))

    async def wait_for_change(self, instance: str, *, timeout_ms: int, ended: bool = False) -> None:
        await self._changes.wait(instance, timeout_ms / 1000, ended=ended)

    async def get_instance_info(self, instance: str) -> InstanceInfo | None:
        return await self._database.read("get_instance_info", lambda store: reads.instance_info(store, instance))

    async def list_instances(self, query: InstanceQuery = NEWEST) -> InstancePage:
        return await self._database.read("list_instances", lambda store: reads.list_instances(store, query))

    async def list_executions(self, instance: str) -> list[ExecutionInfo]:
        found = await self._database.read(
            "list_executions", lambda store: store.rows("list_executions", instance=instance, execution_id=None)
        )
        return [rows.execution_info(row) for row in found]

    async def get_execution_info(self, instance: str, execution_id: int) -> ExecutionInfo | None:
        found = await self._database.read(
            "get_execution_info",
            lambda store: store.row("list_executions", instance=instance, execution_id=execution_id),
        )
        return None if found is None else rows.execution_info(found)

    async def get_instance_stats(self, instance: str) -> InstanceStats | None:
        return await self._database.read("get_instance_stats", lambda store: reads.stats(store, instance))

    async def get_system_metrics(self) -> SystemMetrics:
        found = await self._database.read("get_system_metrics", lambda store: store.rows("system_metrics"))
        return rows.system_metrics(found[0])

    async def get_queue_depths(self) -> QueueDepths:
        return await self._database.read("get_queue_depths", reads.queue_depths)

    async def list_children(self, instance: str) -> list[str]:
        found = await self._database.read("list_children", lambda store: store.rows("list_children", instance=instance))
        return [row[0] for row in found]

    async def get_parent_id(self, instance: str) -> str | None:
        return await self._database.read("get_parent_id", lambda store: reads.parent_id(store, instance))

    async def get_instance_tree(self, instance: str) -> InstanceTree:
        return await self._database.read("get_instance_tree", lambda store: reads.instance_tree(store, instance))

    async def delete_instance(self, instance: str, *, force: bool = False) -> DeleteCounts:
        return await self._database.write("delete_instance", lambda store: admin.delete(store, instance, force=force))

    async def delete_instances(self, selection: InstanceFilter) -> DeleteCounts:
        return await self._database.write("delete_instances", lambda store: admin.delete_many(store, selection))

    async def prune_executions(self, instance: str, options: PruneOptions) -> PruneCounts:
        return await self._database.write("prune_executions", lambda store: admin.prune(store, instance, options))

    async def prune_executions_bulk(self, selection: InstanceFilter, options: PruneOptions) -> PruneCounts:
        return await self._database.write(
            "prune_executions_bulk", lambda store: admin.prune_many(store, selection, options)
        )


def _texts(store: Statements, instance: str, execution_id: int | None) -> list[str]:
    if execution_id is None:
        return []
    return [row[0] for row in store.rows("read_history", instance=instance, execution_id=execution_id)]


def _bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body)
