"""The orchestrator queue and the turn, as functions that run inside a transaction."""

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from queen.durable.events import HistoryEvent, encode_event, event_kind
from queen.durable.limits import encode_place
from queen.durable.messages import (
    ActivityTask,
    ContinueAsNewMessage,
    OrchestratorMessage,
    encode_item,
    handler_name,
    handler_of,
    timer_name,
    visible_from_ms,
    withdrawal_name,
)
from queen.durable.model import ENDED, CapabilityFilter, OrchestrationItem, TurnCommit, pack_version
from queen.durable.provider import ProviderError
from queen.durable.providers.delta import Delta
from queen.durable.providers.rows import orchestration_item
from queen.durable.providers.sqlite.limits import settle
from queen.durable.providers.sqlite.statements import Row, Statements

__all__ = [
    "QUEUE",
    "Fetched",
    "Sent",
    "Wanted",
    "abandon",
    "ack",
    "enqueue",
    "expire_orphans",
    "fetch",
    "is_idle",
    "names_list",
    "queue_tasks",
    "renew",
    "send",
]

QUEUE = "orchestrator"
Fetched = tuple[list[OrchestrationItem], int | None]
_OPENERS = ("StartMessage", "ContinueAsNewMessage")
_LONG = 100


@dataclass(slots=True)
class Sent:
    """What an operation put into the queues: when the next messages are visible, whose turn it was.

    ``names`` are those of the tasks, None when they are not known.
    """

    instance: str | None = None
    orchestrator_at: int | None = None
    tasks: bool = False
    names: frozenset[str] | None = None
    accepted: bool = True


def send(store: Statements, message: OrchestratorMessage, not_before: int) -> int:
    """Queue a message and return when it is visible: a timer from its fire time."""
    visible_at = max(visible_from_ms(message), not_before)
    key = {"queue": QUEUE, "routing_key": message.instance}
    handler = handler_of(message)
    store.change("upsert_key", **key, visible_at=visible_at, handler=handler)
    if isinstance(message, ContinueAsNewMessage):
        store.change("set_handler", **key, handler=handler)
    store.change(
        "insert_message",
        **key,
        visible_at=visible_at,
        kind=type(message).__name__,
        name=withdrawal_name(message),
        body=encode_item(message),
    )
    return visible_at


def enqueue(store: Statements, message: OrchestratorMessage, delay_ms: int, dedup_id: str | None) -> Sent:
    """Queue a message from outside; once per ``dedup_id``."""
    if dedup_id is not None:
        fresh = store.change("remember_dedup", instance=message.instance, dedup_id=dedup_id)
        if not fresh:
            return Sent(accepted=False)
    return Sent(orchestrator_at=send(store, message, store.now_ms() + delay_ms))


class Wanted(msgspec.Struct, frozen=True):
    """Which instances a worker asks for; see ``Provider.fetch_orchestration_items``."""

    lock_timeout_ms: int
    limit: int
    capability: CapabilityFilter | None
    handlers: tuple[str, ...] | None
    unknown_for_ms: int | None
    owner: str | None

    def ready(self, store: Statements, now: int, limit: int) -> list[Row]:
        """Instances that may be handed out now."""
        if self.unknown_for_ms is not None:
            return store.rows("unknown_instances", queue=QUEUE, before=now - self.unknown_for_ms, limit=limit)
        return store.rows(
            "ready_instances",
            queue=QUEUE,
            now=now,
            limit=limit,
            ranges=_ranges(self.capability),
            handlers=names_list(self.handlers),
        )

    def next_due(self, store: Statements, now: int) -> int | None:
        """When the next of them becomes ready."""
        due: int | None = store.value("next_key_due", queue=QUEUE, now=now, handlers=names_list(self.handlers))
        return due


def names_list(names: tuple[str, ...] | None) -> str | None:
    """Names as a statement takes them."""
    return None if names is None else json.dumps(names)


def is_idle(store: Statements, wanted: Wanted) -> Fetched | None:
    """The answer of an empty fetch, found without a lock; ``None`` when there is something to lock."""
    now = store.now_ms()
    return None if wanted.ready(store, now, 1) else ([], wanted.next_due(store, now))


def fetch(store: Statements, wanted: Wanted) -> Fetched:
    """Lock up to ``limit`` instances; answers them and when the next one falls due."""
    now = store.now_ms()
    items: list[OrchestrationItem] = []
    while left := wanted.limit - len(items):
        ready = wanted.ready(store, now, left)
        if not ready:
            break
        for (instance,) in ready:
            item = _lock(store, instance, now, wanted)
            if item is not None:
                items.append(item)
    return items, wanted.next_due(store, now)


def _ranges(capability: CapabilityFilter | None) -> str | None:
    return None if capability is None else json.dumps(list(zip(*capability.packed(), strict=True)))


def _lock(store: Statements, instance: str, now: int, wanted: Wanted) -> OrchestrationItem | None:
    token = secrets.token_hex(16)
    key = {"queue": QUEUE, "routing_key": instance}
    store.change("lock_key", **key, token=token, locked_until=now + wanted.lock_timeout_ms)
    batch = sorted(store.rows("stamp_messages", **key, token=token, now=now))
    known = store.row("find_instance", instance=instance)
    if not batch or (known is None and not any(row[2] in _OPENERS for row in batch)):
        _park(store, instance, token)
        return None
    return _item(store, instance, token, batch, known, wanted.owner)


def _park(store: Statements, instance: str, token: str) -> None:
    """Put aside messages of an instance that does not exist: they wait for its start."""
    key = {"queue": QUEUE, "routing_key": instance}
    store.change("unstamp_messages", token=token, uncount=1)
    store.change("park_key", **key, ready_at=store.value("pending_start", **key))
    store.change("delete_idle_key", **key)


def expire_orphans(store: Statements, keep_ms: int, limit: int) -> list[str]:
    """Move messages whose instance never came to the dead letters; returns whom they were for."""
    now = store.now_ms()
    times = {"queue": QUEUE, "before": now - keep_ms}
    gone = [row[0] for row in store.rows("orphaned_keys", **times, limit=limit)]
    for instance in gone:
        error = f"no instance {instance} was started within {keep_ms} ms"
        store.change("bury_orphans", **times, routing_key=instance, now=now, error=error)
        store.change("delete_orphans", **times, routing_key=instance)
        store.change("delete_idle_key", queue=QUEUE, routing_key=instance)
    return gone


def _item(
    store: Statements, instance: str, token: str, batch: list[Row], known: Row | None, owner: str | None
) -> OrchestrationItem:
    continued = known is not None and known[4] == "ContinuedAsNew" and any(row[2] == _OPENERS[1] for row in batch)
    last, texts = None, None
    if known is not None and not continued:
        last = store.value("last_event", instance=instance, execution_id=known[2])
    owned = owner is not None and store.value("key_owner", queue=QUEUE, routing_key=instance) == owner
    if known is not None and last is not None and (owner is None or not (owned or last > _LONG)):
        texts = [row[0] for row in store.rows("read_history", instance=instance, execution_id=known[2])]
    return orchestration_item(
        instance,
        token,
        known,
        [(message_id, body, attempts) for _, message_id, _, body, attempts in batch],
        texts,
        store.rows("kv_snapshot", instance=instance),
        last,
        owned=owned,
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
    store.change_many("cancel_work_item", [msgspec.structs.asdict(key) for key in commit.cancelled_activities])
    _withdraw_timers(store, instance, commit)
    visible = [send(store, message, now) for message in commit.orchestrator_items]
    ready_at = store.value("release_key", queue=QUEUE, routing_key=instance, not_before=0, owner=commit.owner)
    if ready_at is not None:
        visible.append(ready_at)
    if commit.metadata.status not in (None, "Parked"):
        store.change("leave_places", instance=instance)
    if commit.metadata.status in ENDED:
        _forget_code(store, instance)
    given = settle(store)
    sent.tasks = given or bool(commit.worker_items)
    sent.names = None if given else frozenset(task.name for task in commit.worker_items)
    sent.orchestrator_at = min(visible, default=None)
    if store.now_ms() >= locked_until:
        raise ProviderError("ack_orchestration_item", "the lock expired during the ack", code="lock_lost")
    return sent


def _withdraw_timers(store: Statements, instance: str, commit: TurnCommit) -> None:
    key = {"queue": QUEUE, "routing_key": instance}
    if commit.metadata.status not in (None, "Parked"):
        store.change("withdraw_timers", **key)
    for timer_id in commit.withdrawn_timers:
        store.change("withdraw_message", **key, name=timer_name(commit.execution_id, timer_id))


def _forget_code(store: Statements, instance: str) -> None:
    """An instance that has ended needs no code: whoever comes first deals with what still arrives for it."""
    key = {"queue": QUEUE, "routing_key": instance}
    store.change("set_handler", **key, handler="")
    store.change("delete_idle_key", **key)


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
        handler = handler_name(told.name, told.version)
        store.change("set_handler", queue=QUEUE, routing_key=instance, handler=handler)
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
            "name": task.name,
            "session_id": task.session_id,
            "tag": task.tag,
            "priority": task.priority,
            "body": encode_item(task),
            "now": now,
            "limited": None if task.place is None else encode_place(task.place),
        }
        for task in tasks
    ]
    store.change_many("insert_work_item", rows)


def abandon(store: Statements, token: str, delay_ms: int, *, ignore_attempt: bool) -> Sent:
    """Give an instance back; it queues up behind the others."""
    now = store.now_ms()
    instance, _ = _holder(store, "abandon_orchestration_item", token, now)
    store.change("unstamp_messages", token=token, uncount=int(ignore_attempt))
    not_before = now + max(0, delay_ms)
    ready_at = store.value("release_key", queue=QUEUE, routing_key=instance, not_before=not_before, owner=None)
    return Sent(instance=instance, orchestrator_at=ready_at)


def renew(store: Statements, token: str, extend_ms: int) -> None:
    """Extend a live lock."""
    now = store.now_ms()
    if not store.change("renew_key_lock", token=token, now=now, locked_until=now + extend_ms):
        raise ProviderError("renew_orchestration_item_lock", "the lock is not held", code="lock_lost")
