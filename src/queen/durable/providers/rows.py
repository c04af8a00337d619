"""Rows of either store as the contract's structs; both stores select the same columns in the same order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from queen.durable.events import HistoryEvent, OrchestrationStarted, decode_event, decode_events
from queen.durable.messages import (
    ActivityTask,
    ContinueAsNewMessage,
    OrchestratorMessage,
    StartMessage,
    decode_message,
    decode_task,
)
from queen.durable.model import (
    ExecutionInfo,
    InstanceInfo,
    InstancePage,
    InstanceStats,
    KeyValue,
    LockedTask,
    OrchestrationItem,
    SystemMetrics,
    UndecodableMessage,
    unpack_version,
)
from queen.durable.provider import ProviderError

__all__ = [
    "Row",
    "cursor_position",
    "execution_info",
    "history",
    "instance_info",
    "instance_page",
    "instance_stats",
    "key_values",
    "locked_task",
    "orchestration_item",
    "system_metrics",
]

Row = Sequence[Any]


def history(operation: str, texts: Sequence[str]) -> list[HistoryEvent]:
    """Decode for a reader, who gets an error when that is impossible."""
    try:
        return decode_events(texts)
    except msgspec.MsgspecError as error:
        raise ProviderError(operation, f"the history cannot be decoded: {error}") from error


def instance_info(row: Row) -> InstanceInfo:
    """One instance."""
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


def instance_page(rows: Sequence[Row], limit: int) -> InstancePage:
    """A page from ``limit`` + 1 rows that end with their position."""
    page = rows[:limit]
    more = str(page[-1][12]) if page and len(rows) > limit else None
    return InstancePage([instance_info(row) for row in page], more)


def cursor_position(cursor: str | None) -> int | None:
    """The position a page's cursor stands for."""
    if cursor is not None and not cursor.isdecimal():
        raise ProviderError("list_instances", "cursor must be the next_cursor of an earlier page")
    return None if cursor is None else int(cursor)


def execution_info(row: Row) -> ExecutionInfo:
    """One execution."""
    return ExecutionInfo(
        execution_id=row[0],
        status=row[1],
        output=row[2],
        started_at_ms=row[3],
        completed_at_ms=row[4],
        event_count=row[5],
        pinned_version=None if row[6] is None else unpack_version(row[6]),
    )


def key_values(rows: Iterable[Row]) -> dict[str, KeyValue]:
    """Values by key."""
    return {row[0]: KeyValue(row[1], row[2]) for row in rows}


def instance_stats(row: Row, values: Mapping[str, KeyValue]) -> InstanceStats:
    """Sizes of one instance."""
    return InstanceStats(
        event_count=row[0],
        history_bytes=row[1],
        carried_events=_carried(row[2]),
        kv_keys=len(values),
        kv_bytes=sum(len(key.encode()) + len(value.value.encode()) for key, value in values.items()),
    )


def _carried(opening: str | None) -> int:
    try:
        event = decode_event(opening or "")
    except msgspec.MsgspecError:
        return 0
    return len(event.carried_events) if isinstance(event, OrchestrationStarted) else 0


def system_metrics(row: Row) -> SystemMetrics:
    """Totals."""
    return SystemMetrics(
        instances=row[0], executions=row[1], events=row[2], running=row[3], completed=row[4], failed=row[5]
    )


def orchestration_item(
    instance: str,
    token: str,
    known: Row | None,
    batch: Sequence[tuple[int, str | bytes, int]],
    texts: Sequence[str] | None,
    values: Iterable[Row],
    last_event_id: int | None,
    *,
    owned: bool,
) -> OrchestrationItem:
    """A turn's item: what ``find_instance`` knows of the instance; (id, body, attempts) of its messages.

    Without ``last_event_id`` a new execution begins: it is the start message that says which.
    """
    messages, undecodable = _decode(batch)
    name, version, execution_id, parent, status, identity = known or (None, None, 1, None, None, 0)
    if last_event_id is None:
        status = None
        opener = next((item for item in messages if isinstance(item, (StartMessage, ContinueAsNewMessage))), None)
        if opener is not None:
            name, version, execution_id = opener.name, opener.version, opener.execution_id
            parent = parent or opener.parent_instance
    events: list[HistoryEvent] = []
    history_error = None
    try:
        events = decode_events(texts or ())
    except msgspec.MsgspecError as error:
        history_error = str(error)
    return OrchestrationItem(
        instance=instance,
        token=token,
        attempt=max(row[2] for row in batch),
        name=name,
        version=version,
        execution_id=execution_id,
        history=events,
        messages=messages,
        kv=key_values(values),
        history_error=history_error,
        undecodable=undecodable,
        parent_instance=parent,
        is_new=known is None,
        status=status,
        identity=identity,
        last_event_id=last_event_id or 0,
        left_out=texts is None and last_event_id is not None,
        owned=owned,
    )


def _decode(
    batch: Sequence[tuple[int, str | bytes, int]],
) -> tuple[list[OrchestratorMessage], tuple[UndecodableMessage, ...]]:
    messages: list[OrchestratorMessage] = []
    broken: list[UndecodableMessage] = []
    for message_id, body, _ in batch:
        try:
            messages.append(decode_message(body))
        except msgspec.MsgspecError as error:
            text = body if isinstance(body, str) else body.decode(errors="replace")
            broken.append(UndecodableMessage(message_id, text, str(error)))
    return messages, tuple(broken)


def locked_task(token: str, row: Row) -> LockedTask:
    """A worker's item from body, attempts, instance, execution and activity id."""
    body, attempts, instance, execution_id, activity_id = row
    try:
        return LockedTask(task=decode_task(body), token=token, attempt=attempts)
    except msgspec.MsgspecError as error:
        task = ActivityTask(instance=instance, execution_id=execution_id, activity_id=activity_id, name="", input="")
        return LockedTask(task=task, token=token, attempt=attempts, decode_error=str(error))
