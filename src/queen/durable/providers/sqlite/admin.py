"""Deleting and pruning, as functions that run inside a transaction."""

import json
from collections.abc import Sequence

from queen.durable.model import DeleteCounts, InstanceFilter, PruneCounts, PruneOptions
from queen.durable.provider import ProviderError
from queen.durable.providers.sqlite.limits import settle
from queen.durable.providers.sqlite.orchestrator import QUEUE
from queen.durable.providers.sqlite.statements import Statements

__all__ = ["delete", "delete_many", "prune", "prune_many"]


def delete(store: Statements, instance: str, *, force: bool) -> DeleteCounts:
    """Delete a root and all its descendants."""
    found = store.row("parent_of", instance=instance)
    if found is None:
        raise ProviderError("delete_instance", f"Instance {instance} not found", code="not_found")
    if found[0] is not None:
        raise ProviderError(
            "delete_instance",
            f"Cannot delete sub-orchestration {instance} directly. Delete the root orchestration instead.",
            code="refused",
        )
    tree = [row[0] for row in store.rows("instance_tree", instance=instance)]
    if not force and store.value("running_in_tree", instances=json.dumps(tree)):
        raise ProviderError(
            "delete_instance",
            f"Instance {instance} is still running. Use force=true or cancel first.",
            code="refused",
        )
    return _erase(store, tree)


def _erase(store: Statements, tree: Sequence[str]) -> DeleteCounts:
    known = json.dumps(tree)
    unborn = [row[0] for row in store.rows("unborn_children", instances=known)]
    everyone = json.dumps([*tree, *unborn])
    messages = store.change("delete_from_mailbox_messages", queue=QUEUE, instances=everyone)
    store.change("delete_from_mailbox_keys", queue=QUEUE, instances=everyone)
    messages += store.change("delete_from_work_items", instances=everyone)
    store.change("delete_from_places", instances=everyone)
    settle(store)
    for table in ("kv_store", "kv_delta", "mailbox_dedup"):
        store.change(f"delete_from_{table}", instances=everyone)
    return DeleteCounts(
        events=store.change("delete_from_history", instances=known),
        executions=store.change("delete_from_executions", instances=known),
        instances=store.change("delete_from_instances", instances=known),
        messages=messages,
    )


def delete_many(store: Statements, selection: InstanceFilter) -> DeleteCounts:
    """Delete terminal roots that match, each with its descendants; trees still running are skipped."""
    total = DeleteCounts()
    roots = store.rows(
        "terminal_roots",
        instances=_listed(selection),
        completed_before=selection.completed_before_ms,
        limit=selection.limit,
    )
    for (root,) in roots:
        tree = [row[0] for row in store.rows("instance_tree", instance=root)]
        if store.value("running_in_tree", instances=json.dumps(tree)):
            continue
        gone = _erase(store, tree)
        total = DeleteCounts(
            instances=total.instances + gone.instances,
            executions=total.executions + gone.executions,
            events=total.events + gone.events,
            messages=total.messages + gone.messages,
        )
    return total


def _listed(selection: InstanceFilter) -> str | None:
    return None if selection.instances is None else json.dumps(selection.instances)


def prune(store: Statements, instance: str, options: PruneOptions) -> PruneCounts:
    """Delete old executions of one instance."""
    if store.row("parent_of", instance=instance) is None:
        raise ProviderError("prune_executions", f"Instance {instance} not found", code="not_found")
    executions, events = _prune(store, instance, options)
    return PruneCounts(instances=1, executions=executions, events=events)


def _prune(store: Statements, instance: str, options: PruneOptions) -> tuple[int, int]:
    old = store.rows(
        "prunable_executions",
        instance=instance,
        keep=max(1, options.keep_last or 1),
        completed_before=options.completed_before_ms,
    )
    events = 0
    for (execution_id,) in old:
        events += store.change("delete_execution_history", instance=instance, execution_id=execution_id)
        store.change("delete_execution", instance=instance, execution_id=execution_id)
    return len(old), events


def prune_many(store: Statements, selection: InstanceFilter, options: PruneOptions) -> PruneCounts:
    """Delete old executions of every instance that matches."""
    matching = store.rows(
        "prunable_instances",
        instances=_listed(selection),
        completed_before=selection.completed_before_ms,
        limit=selection.limit,
    )
    counts = [_prune(store, instance, options) for (instance,) in matching]
    return PruneCounts(
        instances=len(counts), executions=sum(count[0] for count in counts), events=sum(count[1] for count in counts)
    )
