"""Questions about instances, as functions that run on one snapshot."""

import json

from queen.durable.model import (
    CustomStatus,
    InstanceInfo,
    InstancePage,
    InstanceQuery,
    InstanceStats,
    InstanceTree,
    KeyValue,
    QueueDepths,
)
from queen.durable.provider import ProviderError
from queen.durable.providers import rows
from queen.durable.providers.sqlite.orchestrator import QUEUE
from queen.durable.providers.sqlite.statements import Statements

__all__ = [
    "custom_status",
    "instance_info",
    "instance_tree",
    "kv_values",
    "list_instances",
    "next_due",
    "parent_id",
    "queue_depths",
    "stats",
]


def custom_status(store: Statements, instance: str, last_seen: int) -> CustomStatus | None:
    """The status when it is newer than the one seen."""
    info = instance_info(store, instance)
    if info is None or info.custom_status_version <= last_seen:
        return None
    return CustomStatus(info.custom_status, info.custom_status_version)


def kv_values(store: Statements, instance: str, key: str | None) -> dict[str, KeyValue]:
    """Live values, of one key or all."""
    return rows.key_values(store.rows("kv_live", instance=instance, key=key))


def instance_info(store: Statements, instance: str) -> InstanceInfo | None:
    """One instance."""
    row = store.row("instance_info", instance=instance)
    return None if row is None else rows.instance_info(row)


def list_instances(store: Statements, query: InstanceQuery) -> InstancePage:
    """One page, newest first."""
    found = store.rows(
        "list_instances",
        before=rows.cursor_position(query.cursor),
        name=query.name,
        status=query.status,
        parent_instance=query.parent_instance,
        trace_id=query.trace_id,
        created_from=query.created_from_ms,
        created_before=query.created_before_ms,
        id_prefix=query.id_prefix,
        limit=query.limit + 1,
        wanted=json.dumps(list(zip(*query.wanted_keys(), strict=True))),
    )
    return rows.instance_page(found, query.limit)


def stats(store: Statements, instance: str) -> InstanceStats | None:
    """Sizes of one instance."""
    row = store.row("instance_stats", instance=instance)
    return None if row is None else rows.instance_stats(row, kv_values(store, instance, None))


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
