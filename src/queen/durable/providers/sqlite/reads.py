"""Questions about instances, as functions that run on one snapshot."""

from collections.abc import Sequence

from queen.durable.model import (
    CustomStatus,
    ExecutionInfo,
    InstanceInfo,
    InstancePage,
    InstanceQuery,
    InstanceStats,
    InstanceTree,
    KeyValue,
    QueueDepths,
    SystemMetrics,
    unpack_version,
)
from queen.durable.provider import ProviderError
from queen.durable.providers.sqlite.orchestrator import QUEUE
from queen.durable.providers.sqlite.statements import Row, Statements

__all__ = [
    "custom_status",
    "executions",
    "instance_info",
    "instance_tree",
    "kv_values",
    "list_instances",
    "next_due",
    "parent_id",
    "queue_depths",
    "stats",
    "system_metrics",
]


def custom_status(store: Statements, instance: str, last_seen: int) -> CustomStatus | None:
    """The status when it is newer than the one seen."""
    info = instance_info(store, instance)
    if info is None or info.custom_status_version <= last_seen:
        return None
    return CustomStatus(info.custom_status, info.custom_status_version)


def kv_values(store: Statements, instance: str, key: str | None) -> dict[str, KeyValue]:
    """Live values, of one key or all."""
    rows = store.rows("kv_live", instance=instance, key=key)
    return {row[0]: KeyValue(row[1], row[2]) for row in rows}


def instance_info(store: Statements, instance: str) -> InstanceInfo | None:
    """One instance."""
    row = store.row("instance_info", instance=instance)
    return None if row is None else _info(row)


def _info(row: Row) -> InstanceInfo:
    return InstanceInfo(
        instance=row[0],
        name=row[1],
        version=row[2],
        current_execution_id=row[3],
        status=row[4],
        output=row[5],
        parent_instance=row[6],
        created_at_ms=row[7],
        updated_at_ms=row[8],
        custom_status=row[9],
        custom_status_version=row[10],
        trace_id=row[11],
    )


def list_instances(store: Statements, query: InstanceQuery) -> InstancePage:
    """One page, newest first."""
    rows = store.rows(
        "list_instances",
        before=None if query.cursor is None else _position(query.cursor),
        name=query.name,
        status=query.status,
        parent_instance=query.parent_instance,
        trace_id=query.trace_id,
        created_from=query.created_from_ms,
        created_before=query.created_before_ms,
        id_prefix=query.id_prefix,
        limit=query.limit + 1,
    )
    page: Sequence[Row] = rows[: query.limit]
    more = str(page[-1][12]) if page and len(rows) > query.limit else None
    return InstancePage([_info(row) for row in page], more)


def _position(cursor: str) -> int:
    if not cursor.isdecimal():
        raise ProviderError("list_instances", "cursor must be the next_cursor of an earlier page")
    return int(cursor)


def executions(store: Statements, instance: str, execution_id: int | None) -> list[ExecutionInfo]:
    """Executions, ascending; one of them or all."""
    return [
        ExecutionInfo(
            execution_id=row[0],
            status=row[1],
            output=row[2],
            started_at_ms=row[3],
            completed_at_ms=row[4],
            event_count=row[5],
            pinned_version=None if row[6] is None else unpack_version(row[6]),
        )
        for row in store.rows("list_executions", instance=instance, execution_id=execution_id)
    ]


def stats(store: Statements, instance: str) -> InstanceStats | None:
    """Sizes of one instance."""
    row = store.row("instance_stats", instance=instance)
    if row is None:
        return None
    values = kv_values(store, instance, None)
    return InstanceStats(
        event_count=row[0],
        history_bytes=row[1],
        carried_events=row[2] or 0,
        kv_keys=len(values),
        kv_bytes=sum(len(key.encode()) + len(value.value.encode()) for key, value in values.items()),
    )


def system_metrics(store: Statements) -> SystemMetrics:
    """Totals."""
    row = store.row("system_metrics")
    assert row is not None
    return SystemMetrics(
        instances=row[0], executions=row[1], events=row[2], running=row[3], completed=row[4], failed=row[5]
    )


def queue_depths(store: Statements) -> QueueDepths:
    """Messages nobody holds."""
    row = store.row("queue_depths", queue=QUEUE, now=store.now_ms())
    assert row is not None
    return QueueDepths(orchestrator=row[0], worker=row[1])


def parent_id(store: Statements, instance: str) -> str | None:
    """The parent, or ``None`` for a root."""
    row = store.row("parent_of", instance=instance)
    if row is None:
        raise ProviderError("get_parent_id", f"Instance {instance} not found", code="not_found")
    parent: str | None = row[0]
    return parent


def instance_tree(store: Statements, instance: str) -> InstanceTree:
    """An instance and all its descendants."""
    ids = [row[0] for row in store.rows("instance_tree", instance=instance)]
    return InstanceTree(instance, ids or [instance])


def next_due(store: Statements) -> int | None:
    """When the next message of either queue becomes visible; now or earlier when one is."""
    found = [store.value("first_key_due", queue=QUEUE), store.value("first_work_due")]
    return min((due for due in found if due is not None), default=None)
