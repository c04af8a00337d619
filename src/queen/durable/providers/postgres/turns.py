"""Turns as rows: many commits become the parameters of one statement."""

from collections.abc import Sequence
from typing import Any

import msgspec

from queen.durable.events import encode_event, event_kind
from queen.durable.limits import encode_place
from queen.durable.messages import (
    ActivityTask,
    OrchestratorMessage,
    encode_item,
    handler_of,
    timer_name,
    visible_from_ms,
    withdrawal_name,
)
from queen.durable.model import OrchestrationItem, QueuePush, TurnCommit, pack_version
from queen.durable.providers.delta import Delta
from queen.durable.providers.rows import orchestration_item

__all__ = ["Turn", "columns", "message_row", "push_row", "read_item", "task_row", "turn_parameters"]

Columns = list[list[Any]]


class Turn(msgspec.Struct, frozen=True):
    """A commit and the token it was made under."""

    token: str
    commit: TurnCommit


def columns(rows: Sequence[Sequence[Any]], width: int) -> Columns:
    """Rows turned into ``width`` columns."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def message_row(message: OrchestratorMessage, sender: int = 0) -> tuple[Any, ...]:
    """A ``message_row``: a timer is visible from its fire time, others at once."""
    return (
        sender,
        message.instance,
        type(message).__name__,
        withdrawal_name(message),
        handler_of(message),
        encode_item(message).encode(),
        visible_from_ms(message),
    )


def push_row(sender: int, push: QueuePush) -> tuple[Any, ...]:
    """A ``push_row``."""
    return (
        sender,
        push.queue,
        push.partition,
        push.payload,
        push.transaction_id,
        push.trace_id,
        push.deliver_at_ms,
        push.parent_id,
    )


def turn_parameters(turns: Sequence[Turn]) -> list[list[Any]]:
    """What ``ack_turns`` is given, table by table."""
    deltas = [Delta.of(turn.commit.history_delta) for turn in turns]
    numbered = list(enumerate((turn.commit for turn in turns), start=1))
    return [
        [_head(turn, delta) for turn, delta in zip(turns, deltas, strict=True)],
        [(n, e.event_id, event_kind(e), encode_event(e)) for n, commit in numbered for e in commit.history_delta],
        [(n, key, *change) for n, delta in enumerate(deltas, start=1) for key, change in delta.kv.items()],
        [(n, *task_row(task)) for n, commit in numbered for task in commit.worker_items],
        [
            (n, key.instance, key.execution_id, key.activity_id)
            for n, commit in numbered
            for key in commit.cancelled_activities
        ],
        [message_row(message, n) for n, commit in numbered for message in commit.orchestrator_items],
        [(n, timer_name(commit.execution_id, timer)) for n, commit in numbered for timer in commit.withdrawn_timers],
        [(n, letter.message_id, letter.error) for n, commit in numbered for letter in commit.dead_letters],
        [push_row(n, push) for n, commit in numbered for push in commit.pushes],
    ]


def task_row(task: ActivityTask) -> tuple[Any, ...]:
    """A ``task_row`` after its turn."""
    return (
        task.instance,
        task.execution_id,
        task.activity_id,
        task.name,
        task.session_id,
        task.tag or "",
        task.priority,
        encode_item(task),
        None if task.place is None else encode_place(task.place),
    )


def _head(turn: Turn, delta: Delta) -> tuple[Any, ...]:
    told = turn.commit.metadata
    named = told.name is not None and told.version is not None
    return (
        turn.token,
        turn.commit.execution_id,
        told.name if named else None,
        told.version if named else None,
        told.parent_instance,
        told.trace_id,
        told.status,
        told.output,
        None if told.pinned_version is None else pack_version(told.pinned_version),
        delta.status_changed,
        delta.status,
        delta.kv_cleared,
        turn.commit.owner,
    )


def read_item(row: Any) -> OrchestrationItem:
    """One row of ``fetch_orchestrations``."""
    known = None
    if row["status"] is not None:
        known = row["name"], row["version"], row["execution_id"], row["parent_instance"], row["status"], row["identity"]
    values = zip(row["kv_keys"] or (), row["kv_values"] or (), row["kv_times"] or (), strict=True)
    batch = list(zip(row["message_ids"], row["bodies"], row["attempts"], strict=True))
    return orchestration_item(
        row["instance"], row["token"], known, batch, row["history"], values, row["last_event_id"], owned=row["owned"]
    )
