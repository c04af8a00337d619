"""Streams: the client computes, the engine keeps its state and commits each step of it as one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from msgspec import Struct

from queen import errors
from queen.db.pool import Database
from queen.engine.reading import Reader
from queen.model import MAX_NAME, QUEUE_MODE, Ack, Acked, NewMessage, Pushed
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection
    from queen.engine import Engine


class StreamQuery(Struct, frozen=True, kw_only=True):
    """A registered query. `matches` is False when it is known with another configuration and nothing was changed."""

    id: UUID
    name: str
    config_hash: str
    fresh: bool
    reset: bool
    matches: bool


class StateOp(Struct, frozen=True, kw_only=True):
    """One change of state. `value` is JSON text, unused by a delete."""

    type: Literal["upsert", "delete"]
    key: str
    value: str = "null"


class StateRow(Struct, frozen=True, kw_only=True):
    """One entry of state. `value` is JSON text."""

    key: str
    value: str
    updated_at: datetime


class Cycle(Struct, frozen=True, kw_only=True):
    """One step of a stream over one source partition: state, output and acknowledgement that belong together."""

    query_id: UUID
    partition_id: int
    group: str = QUEUE_MODE
    state_ops: Sequence[StateOp] = ()
    pushes: Sequence[NewMessage] = ()
    ack: Ack | None = None
    release_lease: bool = True


class Cycled(Struct, frozen=True, kw_only=True):
    """What a committed cycle did."""

    queue: str
    pushed: list[Pushed]
    acked: Acked | None
    lease_released: bool


class Streams:
    """Stream queries of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database: Database = engine.database
        self._reader = Reader(engine.database)

    async def register(
        self, name: str, source: str, sink: str | None, config_hash: str, *, reset: bool = False
    ) -> StreamQuery:
        """Make a query known by its name; another configuration needs `reset`, which drops its state."""
        for field, text in (("name", name), ("source_queue", source), ("config_hash", config_hash)):
            if not text or len(text.encode()) > MAX_NAME or "\0" in text:
                raise errors.InvalidRequest(field, f"{field} must be a text of 1 to {MAX_NAME} bytes")
        if sink is not None and "\0" in sink:
            raise errors.InvalidRequest("sink_queue", "sink_queue must not contain NUL")
        row = await self._database.fetchrow(query("admin/register_stream"), name, source, sink, config_hash, reset)
        return StreamQuery(
            id=row["query_id"],
            name=name,
            config_hash=row["config_hash"],
            fresh=row["fresh"],
            reset=row["was_reset"],
            matches=row["matches"],
        )

    async def cycle(self, cycle: Cycle) -> Cycled:
        """Commit state, pushes and the acknowledgement together, or nothing of it."""
        if any("\0" in op.key for op in cycle.state_ops):
            raise errors.InvalidRequest("key", "a state key must not contain NUL")
        ack = cycle.ack
        releasing = ack.lease_id if ack is not None and cycle.release_lease else None
        found: list[tuple[str, int, bool]] = []

        async def write(connection: Connection) -> None:
            rows = await connection.fetch(
                query("admin/apply_stream_state"),
                cycle.query_id,
                cycle.partition_id,
                [op.type for op in cycle.state_ops],
                [op.key for op in cycle.state_ops],
                [op.value for op in cycle.state_ops],
                cycle.group,
                releasing,
            )
            found[:] = [(row["queue_name"], row["queue_id"], row["released"]) for row in rows]

        done = await self._engine.transaction(cycle.pushes, [ack] if ack is not None else [], work=write)
        queue, queue_id, released = found[0]
        if released:
            self._engine.wake.ready(queue, queue_id)
        acked = done.acked[0] if done.acked else None
        return Cycled(
            queue=queue,
            pushed=done.pushed,
            acked=acked,
            lease_released=released or (acked is not None and acked.released),
        )

    async def state(
        self,
        query_id: UUID,
        partition_id: int,
        *,
        keys: Sequence[str] = (),
        prefix: str | None = None,
        ripe_by: float | None = None,
    ) -> list[StateRow]:
        """State of a query in one partition, by key; every filter given must match."""
        if any("\0" in text for text in (*keys, prefix or "")):
            raise errors.InvalidRequest("keys", "keys must not contain NUL")
        rows = await self._reader.fetch("stream_state", query_id, partition_id, list(keys) or None, prefix, ripe_by)
        return [StateRow(key=row["key"], value=row["value"], updated_at=row["updated_at"]) for row in rows]
