"""Turns as arrays: many commits become the parameters of one statement."""

from collections.abc import Sequence
from typing import Any

import msgspec

from queen.durable.events import encode_event, event_kind
from queen.durable.messages import OrchestratorMessage, encode_item, visible_from_ms
from queen.durable.model import OrchestrationItem, QueuePush, TurnCommit, pack_version
from queen.durable.providers.delta import Delta
from queen.durable.providers.rows import orchestration_item

__all__ = ["Turn", "columns", "message_row", "push_row", "read_item", "turn_parameters"]

Columns = list[list[Any]]


class Turn(msgspec.Struct, frozen=True):
    """A commit and the token it was made under."""

    token: str
    commit: TurnCommit


def columns(rows: Sequence[Sequence[Any]], width: int) -> Columns:
    """Rows turned into ``width`` columns."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def message_row(message: OrchestratorMessage) -> tuple[str, str, bytes, int]:
    """Key, kind, body, and when it is visible at the earliest."""
    return message.instance, type(message).__name__, encode_item(message).encode(), visible_from_ms(message)


def push_row(push: QueuePush) -> tuple[Any, ...]:
    """A push in the order of the statement's arrays."""
    return (
        push.queue,
        push.partition,
        push.payload,
        push.transaction_id,
        push.trace_id,
        push.deliver_at_ms,
        push.parent_id,
    )


def turn_parameters(turns: Sequence[Turn]) -> list[Any]:
    """The arrays of ``ack_turns``, up to the clock."""
    deltas = [Delta.of(turn.commit.history_delta) for turn in turns]
    numbered = list(enumerate((turn.commit for turn in turns), start=1))
    heads = [_head(turn, delta) for turn, delta in zip(turns, deltas, strict=True)]
    events = [(n, e.event_id, event_kind(e), encode_event(e)) for n, commit in numbered for e in commit.history_delta]
    values = [(n, key, *change) for n, delta in enumerate(deltas, start=1) for key, change in delta.kv.items()]
    tasks = [
        (n, t.instance, t.execution_id, t.activity_id, t.session_id, t.tag or "", t.priority, encode_item(t))
        for n, commit in numbered
        for t in commit.worker_items
    ]
    cancelled = [
        (n, key.instance, key.execution_id, key.activity_id)
        for n, commit in numbered
        for key in commit.cancelled_activities
    ]
    messages = [(n, *message_row(message)) for n, commit in numbered for message in commit.orchestrator_items]
    buried = [(n, letter.message_id, letter.error) for n, commit in numbered for letter in commit.dead_letters]
    pushes = [(n, *push_row(push)) for n, commit in numbered for push in commit.pushes]
    return [
        *columns(heads, 12),
        *columns(events, 4),
        *columns(values, 4),
        *columns(tasks, 8),
        *columns(cancelled, 4),
        *columns(messages, 5),
        *columns(buried, 3),
        *columns(pushes, 8),
    ]


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
    )


def read_item(row: Any) -> OrchestrationItem:
    """One row of ``fetch_orchestrations``."""
    known = None
    if row["status"] is not None:
        known = row["name"], row["version"], row["execution_id"], row["parent_instance"]
    values = zip(row["kv_keys"] or (), row["kv_values"] or (), row["kv_times"] or (), strict=True)
    batch = list(zip(row["message_ids"], row["bodies"], row["attempts"], strict=True))
    return orchestration_item(row["instance"], row["token"], known, batch, row["history"], values)
