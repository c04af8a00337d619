"""The transport straight on the database: an engine of the client's own, no broker in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from queen.client import outbox
from queen.client.errors import forked
from queen.client.lanes import Lanes, own
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
from queen.config import Settings
from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import PoolOptions
from queen.engine import Committed, Engine, KeyRing, Selection
from queen.engine.dead_letters import Wanted
from queen.engine.groups import Groups
from queen.engine.reading import MAX_PAGE, Window
from queen.engine.resources import QueueReport, Resources
from queen.engine.services import ServiceRunner
from queen.engine.services.jobs import all_services
from queen.engine.traces import Traces
from queen.errors import InternalError, MessageNotFound, QueueNotFound
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
    Standing,
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
        self._process = os.getpid()
        self._url = url
        self._data_dir = data_dir
        self._keys = KeyRing(keys)
        self._options = options or PoolOptions()
        self._listen_url = listen_url
        self._server: EmbeddedServer | None = None
        self._engine: Engine | None = None
        self._lanes: Lanes | None = None
        self._services: ServiceRunner | None = None

    @property
    def engine(self) -> Engine:
        """The engine; there once the transport is open."""
        if self._process != os.getpid() and self._engine is not None:
            raise forked(self._process)
        if self._engine is None:
            raise InternalError("the client is not open: use it as `async with queen.connect(...) as q`")
        return self._engine

    async def open(self) -> None:
        """Connect, and start the embedded server first where there is no address."""
        self._process = os.getpid()
        url = self._url or await self._embedded()
        listen = self._listen_url or (url if self._options.pooler == "session" else None)
        engine = Engine.connect(url, options=self._options, listen=False, keys=self._keys)
        if listen is not None:
            engine = Engine(engine.database, keys=self._keys, listen_url=listen)
        await engine.open()
        self._engine = engine
        self._lanes = Lanes(engine)

    async def _embedded(self) -> str:
        self._server = await asyncio.to_thread(EmbeddedServer.start, self._data_dir)
        self._server.keep_running()
        url = self._server.dsn()
        async with migrate.connect(url) as connection:
            for migrations in migrate.SETS.values():
                if not await migrate.is_current(connection, migrations):
                    await migrate.up(connection, migrations)
        return url

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        services, self._services = self._services, None
        if services is not None:
            await services.stop()
        lanes, self._lanes = self._lanes, None
        if lanes is not None:
            await lanes.drain()
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.stop)

    def attend(self) -> None:
        """Run the background services from now on, so that retention and schedules need no broker.

        One process at a time runs each, so it does no harm beside a broker.
        """
        if self._services is None:
            services = all_services(self.engine, Settings())
            self._services = ServiceRunner(self.engine.database, services)
            self._services.start()

    async def push(self, items: Sequence[NewMessage], *, again: bool) -> list[Pushed]:
        """Store all or none."""
        engine = self.engine
        if len(items) == 1 and not again and self._lanes is not None:
            return [await self._lanes.push(items[0])]
        pushed = await engine.push(items, careful=again)
        return [own(one, item) for one, item in zip(pushed, items, strict=True)] if again else pushed

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

    async def release(self, leases: Sequence[UUID], delay: float, *, failed: bool = False) -> list[int]:
        """Hand leases back."""
        return await self.engine.release(leases, round(delay * 1000), failed=failed)

    async def remove(self, message: Message) -> bool:
        """Remove a message, whoever has it."""
        return await self.engine.delete_message(message.partition_id, message.transaction_id)

    async def cancel(
        self, queue: str, partition: str, message_id: UUID, transaction_id: str, *, look: bool
    ) -> Standing:
        """Where a message stands; remove it when nobody has begun it, unless only to look."""
        return await self.engine.cancel_message(queue, partition, message_id, transaction_id, look=look)

    async def transaction(self, pushes: Sequence[NewMessage], acks: Sequence[Ack]) -> Committed:
        """Pushes and acks in one commit."""
        leases = {ack.lease_id for ack in acks if ack.lease_id is not None}
        return await self.engine.transaction(pushes, acks, leases=list(leases), unique=True)

    async def record_trace(self, message: Message, event: str, data: str, name: str | None) -> None:
        """Write a note about a message."""
        await Traces(self.engine.database, self._keys).record(
            message.partition_id,
            message.transaction_id,
            data,
            group=message.group,
            event_type=event,
            names=[] if name is None else [name],
        )

    async def trace(self, trace_id: UUID) -> list[Traced]:
        """Every message of a trace with its notes."""
        traces = Traces(self.engine.database, self._keys)
        found: list[Traced] = []
        for one in await traces.by_id(trace_id):
            notes = [
                Note(event=note.event_type, data=msgspec.json.decode(note.data), group=note.group, at=note.created_at)
                for note in await traces.of_message(one.partition_id, one.transaction_id)
            ]
            found.append(Traced(**_shared(Traced, one), notes=notes))
        return found

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
        resources = Resources(self.engine.database)
        found: list[QueueReport] = []
        window = Window(limit=MAX_PAGE)
        while True:
            page, _ = await resources.queues(window)
            found += page.items
            if page.next_cursor is None:
                break
            window = Window(limit=MAX_PAGE, cursor=page.next_cursor)
        made = [
            QueueStatus(
                **_shared(QueueStatus, one.config),
                partitions=one.partitions,
                depth=one.counts.pending + one.counts.processing,
                total=one.counts.total,
                processing=one.counts.processing,
            )
            for one in found
        ]
        return sorted(made, key=lambda one: one.name)

    async def partitions(self, queue: str, limit: int) -> list[PartitionStatus]:
        """The partitions of a queue, the fullest first."""
        made = [
            PartitionStatus(
                name=one.name,
                depth=one.counts.pending + one.counts.processing,
                total=one.counts.total,
                processing=one.counts.processing,
                newest_at=one.newest_at,
            )
            for one in (await Resources(self.engine.database).partitions(queue)).items
        ]
        return sorted(made, key=lambda one: (-one.depth, one.name))[:limit]

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
        made = [
            GroupStatus(
                group=one.name,
                queue=one.queue,
                partitions=one.members,
                lagging=one.lagging,
                lag=one.waiting,
                behind=float(one.lag_seconds or 0),
                mode=one.mode,
            )
            for one in await Groups(self.engine.database, self.engine.wake).known()
        ]
        return sorted(made, key=lambda one: (one.queue, one.group))

    async def group(self, group: str) -> list[GroupPartition]:
        """One group, partition by partition, the furthest behind first."""
        made = [
            GroupPartition(
                queue=one.queue,
                partition=one.partition,
                lag=one.waiting,
                behind=float(one.lag_seconds or 0),
                consumed=one.total_consumed,
                leased=one.lease_id is not None,
                last_consumed_at=one.last_consumed_at,
            )
            for one in await Groups(self.engine.database, self.engine.wake).lanes(group)
        ]
        return sorted(made, key=lambda one: (-one.lag, one.queue, one.partition))

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
        wanted = Wanted(queue=selection.queue, group=selection.group, error_contains=selection.error_contains)
        page, _ = await self.engine.dead_letters.browse(wanted, Window(limit=limit, offset=offset))
        return [DeadLetter(**_shared(DeadLetter, one), error=one.error_message) for one in page.items]

    async def dead_letter(self, number: int) -> DeadLetter:
        """One dead letter."""
        found = await self.engine.dead_letters.get(number)
        if found is None:
            raise MessageNotFound(f"there is no dead letter {number}")
        return DeadLetter(**_shared(DeadLetter, found), error=found.error_message)

    async def redrive(
        self,
        selection: Selection,
        *,
        to_queue: str | None,
        to_all: bool,
        payload: str | None,
        limit: int,
        dry_run: bool,
    ) -> Redriven:
        """Push dead letters again."""
        return await self.engine.dead_letters.redrive(
            selection, to_queue=to_queue, to_all=to_all, payload=payload, limit=limit, dry_run=dry_run
        )

    async def purge(self, selection: Selection, *, dry_run: bool) -> int:
        """Remove dead letters."""
        return await self.engine.dead_letters.purge(selection, dry_run=dry_run)


def _shared(kind: type[Struct], value: Struct) -> dict[str, Any]:
    """The fields of `value` that `kind` has too."""
    both = set(kind.__struct_fields__) & set(value.__struct_fields__)
    return {name: getattr(value, name) for name in both}
