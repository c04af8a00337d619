"""The orchestrator queue and the turn, as functions that run inside a transaction."""

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from queen.durable.events import HistoryEvent, encode_event, event_kind
from queen.durable.messages import ActivityTask, OrchestratorMessage, encode_item, visible_from_ms
from queen.durable.model import CapabilityFilter, OrchestrationItem, TurnCommit, pack_version
from queen.durable.provider import ProviderError
from queen.durable.providers.delta import Delta
from queen.durable.providers.rows import orchestration_item
from queen.durable.providers.sqlite.statements import Row, Statements

__all__ = ["QUEUE", "Sent", "abandon", "ack", "enqueue", "fetch", "is_idle", "queue_tasks", "renew", "send"]

QUEUE = "orchestrator"
Fetched = tuple[list[OrchestrationItem], int | None]
_OPENERS = ("StartMessage", "ContinueAsNewMessage")


@dataclass(slots=True)
class Sent:
    """What an operation put into the queues: when the next messages are visible, whose turn it was."""

    instance: str | None = None
    orchestrator_at: int | None = None
    tasks: bool = False
    accepted: bool = True


def send(store: Statements, message: OrchestratorMessage, not_before: int) -> int:
    """Queue a message and return when it is visible: a timer from its fire time."""
    visible_at = max(visible_from_ms(message), not_before)
    key = {"queue": QUEUE, "routing_key": message.instance, "visible_at": visible_at}
    store.change("upsert_key", **key)
    store.change("insert_message", **key, kind=type(message).__name__, body=encode_item(message))
    return visible_at


def enqueue(store: Statements, message: OrchestratorMessage, delay_ms: int, dedup_id: str | None) -> Sent:
    """Queue a message from outside; once per ``dedup_id``."""
    if dedup_id is not None:
        fresh = store.change("remember_dedup", instance=message.instance, dedup_id=dedup_id)
        if not fresh:
            return Sent(accepted=False)
    return Sent(orchestrator_at=send(store, message, store.now_ms() + delay_ms))


def is_idle(store: Statements, capability: CapabilityFilter | None) -> Fetched | None:
    """The answer of an empty fetch, found without a lock; ``None`` when there is something to lock."""
    now = store.now_ms()
    if store.rows("ready_instances", queue=QUEUE, now=now, limit=1, ranges=_ranges(capability)):
        return None
    return [], store.value("next_key_due", queue=QUEUE, now=now)


def fetch(store: Statements, lock_timeout_ms: int, limit: int, capability: CapabilityFilter | None) -> Fetched:
    """Lock up to ``limit`` instances; answers them and when the next one falls due."""
    now = store.now_ms()
    items: list[OrchestrationItem] = []
    while wanted := limit - len(items):
        ready = store.rows("ready_instances", queue=QUEUE, now=now, limit=wanted, ranges=_ranges(capability))
        if not ready:
            break
        for (instance,) in ready:
            item = _lock(store, instance, now, lock_timeout_ms)
            if item is not None:
                items.append(item)
    return items, store.value("next_key_due", queue=QUEUE, now=now)


def _ranges(capability: CapabilityFilter | None) -> str | None:
    return None if capability is None else json.dumps(list(zip(*capability.packed(), strict=True)))


def _lock(store: Statements, instance: str, now: int, lock_timeout_ms: int) -> OrchestrationItem | None:
    token = secrets.token_hex(16)
    key = {"queue": QUEUE, "routing_key": instance}
    store.change("lock_key", **key, token=token, locked_until=now + lock_timeout_ms)
    batch = sorted(store.rows("stamp_messages", **key, token=token, now=now))
    known = store.row("find_instance", instance=instance)
    if not batch or (known is None and not any(row[2] in _OPENERS for row in batch)):
        _park(store, instance, token)
        return None
    return _item(store, instance, token, batch, known)


def _park(store: Statements, instance: str, token: str) -> None:
    """Put aside messages of an instance that does not exist: they may have overtaken its start."""
    key = {"queue": QUEUE, "routing_key": instance}
    start_at = store.value("pending_start", **key)
    if start_at is None:
        store.change("delete_orphan_events", token=token)
    store.change("unstamp_messages", token=token, visible_at=0, uncount=1)
    store.change("park_key", **key, ready_at=start_at)
    store.change("delete_idle_key", **key)


def _item(store: Statements, instance: str, token: str, batch: list[Row], known: Row | None) -> OrchestrationItem:
    continued = known is not None and known[4] == "ContinuedAsNew" and any(row[2] == _OPENERS[1] for row in batch)
    texts = None
    if known is not None and not continued:
        texts = [row[0] for row in store.rows("read_history", instance=instance, execution_id=known[2])]
    return orchestration_item(
        instance,
        token,
        known and known[:4],
        [(message_id, body, attempts) for _, message_id, _, body, attempts in batch],
        texts,
        store.rows("kv_snapshot", instance=instance),
    )


def ack(store: Statements, token: str, commit: TurnCommit) -> Sent:
    """Commit a turn; anything wrong raises and leaves nothing behind."""
    now = store.now_ms()
    instance, locked_until = _holder(store, "ack_orchestration_item", token, now)
    sent = Sent(instance=instance)
    _finish_messages(store, token, commit, now)
    _describe(store, instance, commit, now)
    append(store, "ack_orchestration_item", instance, commit.execution_id, commit.history_delta)
    _update_read_models(store, instance, commit, now)
    queue_tasks(store, commit.worker_items, now)
    sent.tasks = bool(commit.worker_items)
    store.change_many("cancel_work_item", [msgspec.structs.asdict(key) for key in commit.cancelled_activities])
    visible = [send(store, message, now) for message in commit.orchestrator_items]
    ready_at = store.value("release_key", queue=QUEUE, routing_key=instance, not_before=0)
    if ready_at is not None:
        visible.append(ready_at)
    sent.orchestrator_at = min(visible, default=None)
    if store.now_ms() >= locked_until:
        raise ProviderError("ack_orchestration_item", "the lock expired during the ack", code="lock_lost")
    return sent


def _holder(store: Statements, operation: str, token: str, now: int) -> tuple[str, int]:
    held = store.row("find_key_lock", queue=QUEUE, token=token, now=now)
    if held is None:
        raise ProviderError(operation, "the lock is not held", code="lock_lost")
    return held[0], held[1]


def _finish_messages(store: Statements, token: str, commit: TurnCommit, now: int) -> None:
    if commit.dead_letters:
        letters = json.dumps([(letter.message_id, letter.error) for letter in commit.dead_letters])
        store.change("bury_messages", token=token, letters=letters, now=now)
    store.change("delete_stamped", token=token)


def _describe(store: Statements, instance: str, commit: TurnCommit, now: int) -> None:
    told = commit.metadata
    execution = {"instance": instance, "execution_id": commit.execution_id, "now": now}
    if told.name is not None and told.version is not None:
        store.change(
            "upsert_instance",
            **execution,
            name=told.name,
            version=told.version,
            parent_instance=told.parent_instance,
            trace_id=told.trace_id,
        )
    pinned = None if told.pinned_version is None else pack_version(told.pinned_version)
    if store.change("advance_instance", **execution, pinned_version=pinned):
        store.change("upsert_execution", **execution, status=told.status, output=told.output, pinned_version=pinned)


def append(store: Statements, operation: str, instance: str, execution_id: int, events: Iterable[HistoryEvent]) -> None:
    """Append events exactly as given, without looking at what is there."""
    rows = [
        {
            "instance": instance,
            "execution_id": execution_id,
            "event_id": event.event_id,
            "kind": event_kind(event),
            "data": encode_event(event),
        }
        for event in events
    ]
    if store.change_many("append_event", rows) < len(rows):
        ids = ", ".join(str(row["event_id"]) for row in rows)
        raise ProviderError(
            operation,
            f"one of the events {ids} of {instance!r}, execution {execution_id}, exists already",
            code="duplicate_event",
        )


def _update_read_models(store: Statements, instance: str, commit: TurnCommit, now: int) -> None:
    delta = Delta.of(commit.history_delta)
    if delta.status_changed:
        store.change("set_custom_status", instance=instance, value=delta.status)
    if delta.kv_cleared:
        store.change("kv_tombstone_all", instance=instance, now=now)
    for key, (value, updated_at) in delta.kv.items():
        store.change("kv_change", instance=instance, key=key, value=value, updated_at=updated_at)
    if commit.metadata.status not in (None, "Parked"):
        store.change("kv_fold_values", instance=instance)
        store.change("kv_fold_tombstones", instance=instance)
        store.change("kv_empty_delta", instance=instance)


def queue_tasks(store: Statements, tasks: Iterable[ActivityTask], now: int) -> None:
    """Queue activities, visible at once."""
    rows = [
        {
            "instance": task.instance,
            "execution_id": task.execution_id,
            "activity_id": task.activity_id,
            "session_id": task.session_id,
            "tag": task.tag,
            "priority": task.priority,
            "body": encode_item(task),
            "now": now,
        }
        for task in tasks
    ]
    store.change_many("insert_work_item", rows)


def abandon(store: Statements, token: str, delay_ms: int, *, ignore_attempt: bool) -> Sent:
    """Give an instance back; it queues up behind the others."""
    now = store.now_ms()
    instance, _ = _holder(store, "abandon_orchestration_item", token, now)
    visible_at = now + delay_ms if delay_ms > 0 else 0
    store.change("unstamp_messages", token=token, visible_at=visible_at, uncount=int(ignore_attempt))
    ready_at = store.value("release_key", queue=QUEUE, routing_key=instance, not_before=now)
    return Sent(instance=instance, orchestrator_at=ready_at)


def renew(store: Statements, token: str, extend_ms: int) -> None:
    """Extend a live lock."""
    now = store.now_ms()
    if not store.change("renew_key_lock", token=token, now=now, locked_until=now + extend_ms):
        raise ProviderError("renew_orchestration_item_lock", "the lock is not held", code="lock_lost")
