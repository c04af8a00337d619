"""The transport straight on the database: an engine of the client's own, no broker in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from queen.client import outbox
from queen.client.status import (
    DeadLetter,
    GroupPartition,
    GroupStatus,
    Note,
    PartitionStatus,
    QueueStatus,
    Traced,
)
from queen.client.transport import SeekTo
from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import PoolOptions, Row
from queen.engine import Committed, Engine, KeyRing, Selection
from queen.errors import EncryptionUnavailable, InternalError, MessageNotFound, QueueNotFound
from queen.model import (
    Ack,
    Acked,
    Message,
    NewMessage,
    PopRequest,
    Pushed,
    QueueConfig,
    Redriven,
    Renewal,
    SeekResult,
)
from queen.sql import query


class DirectTransport:
    """Runs the verbs on PostgreSQL. Without an address: on the embedded server of a directory."""

    def __init__(
        self,
        url: str | None,
        *,
        data_dir: Path = Path(".queen"),
        keys: Sequence[str] = (),
        options: PoolOptions | None = None,
        listen_url: str | None = None,
    ) -> None:
        self._url = url
        self._data_dir = data_dir
        self._keys = KeyRing(keys)
        self._options = options or PoolOptions()
        self._listen_url = listen_url
        self._server: EmbeddedServer | None = None
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine; there once the transport is open."""
        if self._engine is None:
            raise InternalError("the client is not open: use it as `async with queen.connect(...) as q`")
        return self._engine

    async def open(self) -> None:
        """Connect, and start the embedded server first where there is no address."""
        url = self._url or await self._embedded()
        listen = self._listen_url or (url if self._options.pooler == "session" else None)
        engine = Engine.connect(url, options=self._options, listen=False, keys=self._keys)
        if listen is not None:
            engine = Engine(engine.database, keys=self._keys, listen_url=listen)
        await engine.open()
        self._engine = engine

    async def _embedded(self) -> str:
        self._server = await asyncio.to_thread(EmbeddedServer.start, self._data_dir)
        url = self._server.dsn()
        async with migrate.connect(url) as connection:
            for migrations in migrate.SETS.values():
                if not await migrate.is_current(connection, migrations):
                    await migrate.up(connection, migrations)
        return url

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.stop)

    async def push(self, items: Sequence[NewMessage], *, again: bool) -> list[Pushed]:
        """Store all or none."""
        pushed = await self.engine.push(items, careful=again)
        return [_own(one, item) for one, item in zip(pushed, items, strict=True)] if again else pushed

    async def push_on(self, connection: object, item: NewMessage) -> UUID:
        """Store one message in the caller's own transaction, sealed when its queue wants that."""
        if self._keys and await self.engine.database.fetch(query("engine/encrypted_queues"), [item.queue]):
            item = msgspec.structs.replace(item, payload=self._keys.seal(item.payload))
        return await outbox.push_on(connection, item)

    async def pop(self, request: PopRequest, *, namespace: str | None, task: str | None) -> list[Message]:
        """Take waiting messages."""
        if namespace is not None or task is not None:
            return await self.engine.pop_matching(namespace, task, request)
        return await self.engine.pop(request)

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """Say what became of single messages."""
        return await self.engine.ack(acks)

    async def ack_up_to(self, messages: Sequence[Message]) -> list[Acked]:
        """Everything up to these messages is done in their partitions."""
        return await self.engine.ack_messages(messages)

    async def renew(self, leases: Sequence[UUID], seconds: int) -> list[Renewal]:
        """Extend leases."""
        return await self.engine.renew(leases, seconds)

    async def release(self, leases: Sequence[UUID], delay: float) -> list[int]:
        """Hand leases back."""
        return await self.engine.release(leases, round(delay * 1000))

    async def transaction(self, pushes: Sequence[NewMessage], acks: Sequence[Ack]) -> Committed:
        """Pushes and acks in one commit."""
        leases = {ack.lease_id for ack in acks if ack.lease_id is not None}
        return await self.engine.transaction(pushes, acks, leases=list(leases))

    async def record_trace(self, message: Message, event: str, data: str, name: str | None) -> None:
        """Write a note about a message."""
        rows = await self.engine.database.fetch(
            query("client/record_trace"), message.partition_id, message.transaction_id, message.group, event, data, name
        )
        if not rows:
            raise MessageNotFound(f"there is no message {message.transaction_id!r} in {message.partition!r} any more")

    async def trace(self, trace_id: UUID) -> list[Traced]:
        """Every message of a trace with its notes."""
        rows = await self.engine.database.fetch(query("client/trace"), trace_id)
        keys = [(row["partition_id"], row["transaction_id"]) for row in rows]
        found = await self.engine.database.fetch(
            query("client/notes"), [key[0] for key in keys], [key[1] for key in keys]
        )
        notes: dict[tuple[int, str], list[Note]] = {key: [] for key in keys}
        for row in found:
            notes[row["partition_id"], row["transaction_id"]].append(
                Note(
                    event=row["event_type"],
                    data=msgspec.json.decode(row["data"]),
                    group=row["consumer_group"],
                    at=row["created_at"],
                )
            )
        return [
            Traced(**_renamed(row, queue_name="queue", partition_name="partition"), notes=notes[key])
            for row, key in zip(rows, keys, strict=True)
        ]

    async def configure(
        self, queue: str, options: Mapping[str, Any], namespace: str | None, task: str | None
    ) -> QueueConfig:
        """Create or change a queue."""
        return await self.engine.queues.configure(queue, options, namespace=namespace, task=task)

    async def queue(self, queue: str) -> QueueConfig:
        """One queue's configuration."""
        found = await self.engine.queues.queue(queue)
        if found is None:
            raise QueueNotFound(f"there is no queue {queue!r}")
        return found

    async def queues(self) -> list[QueueStatus]:
        """Every queue at a glance."""
        rows = await self.engine.database.fetch(query("client/queues"))
        return [QueueStatus(**dict(row)) for row in rows]

    async def partitions(self, queue: str, limit: int) -> list[PartitionStatus]:
        """The partitions of a queue, the fullest first."""
        rows = await self.engine.database.fetch(query("client/partitions"), queue, limit)
        return [PartitionStatus(**dict(row)) for row in rows]

    async def pause(self, queue: str, *, paused: bool) -> None:
        """Stop or resume handing out."""
        await self.engine.queues.pause(queue, paused=paused)

    async def delete_queue(self, queue: str) -> bool:
        """Remove a queue with everything in it."""
        return await self.engine.queues.delete(queue)

    async def clear_queue(self, queue: str) -> int:
        """Remove all messages of a queue."""
        return await self.engine.queues.clear(queue)

    async def groups(self) -> list[GroupStatus]:
        """Every group on every queue."""
        rows = await self.engine.database.fetch(query("client/groups"))
        return [GroupStatus(**_renamed(row, consumer_group="group", queue_name="queue")) for row in rows]

    async def group(self, group: str) -> list[GroupPartition]:
        """One group, partition by partition."""
        rows = await self.engine.database.fetch(query("client/group"), group)
        return [GroupPartition(**_renamed(row, queue_name="queue", partition_name="partition")) for row in rows]

    async def seek(
        self,
        queue: str,
        group: str,
        to: SeekTo,
        *,
        time: datetime | None,
        seq: int | None,
        partition: str | None,
        dry_run: bool,
    ) -> SeekResult:
        """Move a group."""
        return await self.engine.queues.seek(queue, group, to, time=time, seq=seq, partition=partition, dry_run=dry_run)

    async def delete_group(self, group: str, queue: str | None, *, keep_start: bool) -> int:
        """Forget a group."""
        return await self.engine.queues.forget_group(group, queue, subscription=not keep_start)

    async def dead_letters(self, selection: Selection, limit: int, offset: int) -> list[DeadLetter]:
        """Dead letters, newest first."""
        rows = await self.engine.database.fetch(query("client/dead_letters"), *selection.arguments(), limit, offset)
        return [self._dead_letter(row) for row in rows]

    def _dead_letter(self, row: Row) -> DeadLetter:
        fields = _renamed(
            row,
            queue_name="queue",
            partition_name="partition",
            consumer_group="group",
            error_message="error",
        )
        if fields.pop("is_encrypted"):
            try:
                fields["payload"] = self._keys.open(fields["payload"])
            except EncryptionUnavailable as error:
                fields["error"] = f"{fields['error']} ({error.message})"
        return DeadLetter(**fields)

    async def redrive(
        self, selection: Selection, *, to_queue: str | None, payload: str | None, limit: int, dry_run: bool
    ) -> Redriven:
        """Push dead letters again."""
        return await self.engine.dead_letters.redrive(
            selection, to_queue=to_queue, payload=payload, limit=limit, dry_run=dry_run
        )

    async def purge(self, selection: Selection, *, dry_run: bool) -> int:
        """Remove dead letters."""
        return await self.engine.dead_letters.purge(selection, dry_run=dry_run)


def _own(pushed: Pushed, item: NewMessage) -> Pushed:
    """What an earlier attempt of ours had stored is no duplicate."""
    if pushed.status == "duplicate" and pushed.id == item.id:
        return msgspec.structs.replace(pushed, status="queued")
    return pushed


def _renamed(row: Row, **names: str) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in row.items()}
