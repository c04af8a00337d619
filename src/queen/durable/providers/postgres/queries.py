"""Reads and admin of the PostgreSQL provider."""

from collections.abc import Sequence
from typing import Any

from queen.durable.events import HistoryEvent, encode_event, event_kind
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
from queen.durable.provider import NEWEST, Provider, ProviderError
from queen.durable.providers import rows
from queen.durable.providers.postgres.connection import Calls
from queen.durable.providers.wake import Changes, Clock, ServerClock

__all__ = ["PostgresQueries"]

_REFUSALS = {
    "not_found": ("not_found", "Instance {} not found"),
    "child": ("refused", "Cannot delete sub-orchestration {} directly. Delete the root orchestration instead."),
    "running": ("refused", "Instance {} is still running. Use force=true or cancel first."),
}


class PostgresQueries(Provider):
    """Everything that is not a queue."""

    def __init__(self, database: Calls, clock: Clock | None) -> None:
        self._database = database
        self._clock = clock
        self._changes = Changes()
        self._server_clock = ServerClock()

    def now_ms(self) -> int:
        return (self._clock or self._server_clock)()

    def _given_now(self) -> int | None:
        return None if self._clock is None else self._clock()

    async def next_due_ms(self) -> int | None:
        due: int | None = await self._database.value("next_due_ms", "next_due")
        return due

    async def read(self, instance: str) -> list[HistoryEvent]:
        found = await self._database.call("read", "read_latest", instance)
        return rows.history("read", [row[0] for row in found])

    async def read_with_execution(self, instance: str, execution_id: int) -> list[HistoryEvent]:
        found = await self._database.call("read_with_execution", "read_history", instance, execution_id)
        return rows.history("read_with_execution", [row[0] for row in found])

    async def read_history_after(self, instance: str, execution_id: int, event_id: int) -> list[HistoryEvent]:
        found = await self._database.call("read_history_after", "read_history_after", instance, execution_id, event_id)
        return rows.history("read_history_after", [row[0] for row in found])

    async def append_with_execution(self, instance: str, execution_id: int, events: Sequence[HistoryEvent]) -> None:
        await self._database.call(
            "append_with_execution",
            "append_events",
            instance,
            execution_id,
            [event.event_id for event in events],
            [event_kind(event) for event in events],
            [encode_event(event) for event in events],
        )

    async def latest_execution_id(self, instance: str) -> int | None:
        found: int | None = await self._database.value("latest_execution_id", "latest_execution", instance)
        return found

    async def get_custom_status(self, instance: str, last_seen_version: int = 0) -> CustomStatus | None:
        info = await self.get_instance_info(instance)
        if info is None or info.custom_status_version <= last_seen_version:
            return None
        return CustomStatus(info.custom_status, info.custom_status_version)

    async def get_kv_value(self, instance: str, key: str) -> KeyValue | None:
        found = await self._database.call("get_kv_value", "kv_live", instance, key)
        return rows.key_values(found).get(key)

    async def get_kv_all_values(self, instance: str) -> dict[str, KeyValue]:
        return rows.key_values(await self._database.call("get_kv_all_values", "kv_live", instance, None))

    async def wait_for_change(self, instance: str, *, timeout_ms: int, ended: bool = False) -> None:
        await self._changes.wait(instance, timeout_ms / 1000, ended=ended)

    async def get_instance_info(self, instance: str) -> InstanceInfo | None:
        found = await self._database.call("get_instance_info", "instance_info", instance)
        return rows.instance_info(found[0]) if found else None

    async def list_instances(self, query: InstanceQuery = NEWEST) -> InstancePage:
        found = await self._database.call(
            "list_instances",
            "list_instances",
            rows.cursor_position(query.cursor),
            query.name,
            query.status,
            query.parent_instance,
            query.trace_id,
            query.created_from_ms,
            query.created_before_ms,
            query.id_prefix,
            query.limit + 1,
            *query.wanted_keys(),
        )
        return rows.instance_page(found, query.limit)

    async def list_executions(self, instance: str) -> list[ExecutionInfo]:
        found = await self._database.call("list_executions", "list_executions", instance, None)
        return [rows.execution_info(row) for row in found]

    async def get_execution_info(self, instance: str, execution_id: int) -> ExecutionInfo | None:
        found = await self._database.call("get_execution_info", "list_executions", instance, execution_id)
        return rows.execution_info(found[0]) if found else None

    async def get_instance_stats(self, instance: str) -> InstanceStats | None:
        found = await self._database.call("get_instance_stats", "instance_stats", instance)
        return rows.instance_stats(found[0], await self.get_kv_all_values(instance)) if found else None

    async def get_system_metrics(self) -> SystemMetrics:
        [row] = await self._database.call("get_system_metrics", "system_metrics")
        return rows.system_metrics(row)

    async def get_queue_depths(self) -> QueueDepths:
        [row] = await self._database.call("get_queue_depths", "queue_depths", self._given_now())
        return QueueDepths(orchestrator=row[0], worker=row[1])

    async def list_children(self, instance: str) -> list[str]:
        return [row[0] for row in await self._database.call("list_children", "list_children", instance)]

    async def get_parent_id(self, instance: str) -> str | None:
        found = await self._database.call("get_parent_id", "parent_of", instance)
        if not found:
            raise ProviderError("get_parent_id", f"Instance {instance} not found", code="not_found")
        parent: str | None = found[0][0]
        return parent

    async def get_instance_tree(self, instance: str) -> InstanceTree:
        ids: list[str] = await self._database.value("get_instance_tree", "instance_tree", instance)
        return InstanceTree(instance, ids or [instance])

    async def delete_instance(self, instance: str, *, force: bool = False) -> DeleteCounts:
        [row] = await self._database.call("delete_instance", "delete_instance", instance, force)
        if row[0] is not None:
            code, text = _REFUSALS[row[0]]
            raise ProviderError("delete_instance", text.format(instance), code=code)
        return _deleted(row[1:])

    async def delete_instances(self, selection: InstanceFilter) -> DeleteCounts:
        [row] = await self._database.call(
            "delete_instances",
            "delete_instances",
            selection.instances,
            selection.completed_before_ms,
            selection.limit,
        )
        return _deleted(row)

    async def prune_executions(self, instance: str, options: PruneOptions) -> PruneCounts:
        counts = await self._prune("prune_executions", [instance], options)
        if not counts.instances:
            raise ProviderError("prune_executions", f"Instance {instance} not found", code="not_found")
        return counts

    async def prune_executions_bulk(self, selection: InstanceFilter, options: PruneOptions) -> PruneCounts:
        found = await self._database.call(
            "prune_executions_bulk",
            "prunable_instances",
            selection.instances,
            selection.completed_before_ms,
            selection.limit,
        )
        counts = [await self._prune("prune_executions_bulk", [row[0]], options) for row in found]
        return PruneCounts(
            instances=sum(count.instances for count in counts),
            executions=sum(count.executions for count in counts),
            events=sum(count.events for count in counts),
        )

    async def _prune(self, operation: str, instances: list[str], options: PruneOptions) -> PruneCounts:
        keep = max(1, options.keep_last or 1)
        [row] = await self._database.call(operation, "prune_executions", instances, keep, options.completed_before_ms)
        return PruneCounts(instances=row[0], executions=row[1], events=row[2])


def _deleted(row: Any) -> DeleteCounts:
    return DeleteCounts(instances=row[0], executions=row[1], events=row[2], messages=row[3])
