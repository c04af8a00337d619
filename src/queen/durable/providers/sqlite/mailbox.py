"""The generic mailbox and event store on SQLite."""

import json
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from queen.durable.mailbox import (
    NOTHING,
    DeadLetter,
    Mailbox,
    MailboxMessage,
    MessageBatch,
    Outgoing,
    StoredEvent,
    UnitOfWork,
)
from queen.durable.provider import ProviderError
from queen.durable.providers.sqlite.database import Database
from queen.durable.providers.sqlite.statements import Row, Statements
from queen.durable.providers.wake import Clock, system_clock

__all__ = ["SqliteMailbox"]


class SqliteMailbox(Mailbox):
    """Mailboxes in one SQLite file, shared by any number of processes, or in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, path: str | Path, *, clock: Clock = system_clock) -> "SqliteMailbox":
        """Open a file (made when missing) or ``:memory:``."""
        return cls(await Database.open(str(path), clock))

    async def close(self) -> None:
        await self._database.close()

    async def enqueue(self, queue: str, routing_key: str | None, message: bytes, visible_after_ms: int = 0) -> None:
        outgoing = Outgoing(queue, routing_key, message, visible_after_ms)
        await self._database.write("enqueue", lambda store: _send(store, [outgoing]))

    async def dequeue_batch(self, queue: str, *, lock_timeout_ms: int = 30_000) -> MessageBatch | None:
        return await self._database.write("dequeue_batch", lambda store: _dequeue(store, queue, lock_timeout_ms))

    async def ack(self, lock_token: str, work: UnitOfWork = NOTHING) -> None:
        await self._database.write("ack", lambda store: _ack(store, lock_token, work))

    async def abandon(self, lock_token: str, delay_ms: int = 0, *, ignore_attempt: bool = False) -> None:
        uncount = int(ignore_attempt)
        await self._database.write("abandon", lambda store: _abandon(store, lock_token, delay_ms, uncount))

    async def renew(self, lock_token: str, extend_ms: int) -> None:
        await self._database.write("renew", lambda store: _renew(store, lock_token, extend_ms))

    async def dead_letters(self, queue: str, *, limit: int = 100) -> list[DeadLetter]:
        rows = await self._database.read(
            "dead_letters", lambda store: store.rows("list_dead_letters", queue=queue, limit=limit)
        )
        return [DeadLetter(row[0], row[4], row[1], bytes(row[2]), row[3]) for row in rows]

    async def append(self, events: Sequence[StoredEvent]) -> None:
        await self._database.write("append", lambda store: _append(store, "append", events))

    async def read_events(self, instance: str, execution_id: int | None = None) -> list[StoredEvent]:
        rows = await self._database.read(
            "read_events", lambda store: store.rows("read_events", instance=instance, execution_id=execution_id)
        )
        return [StoredEvent(*row) for row in rows]

    async def latest_execution(self, instance: str) -> int | None:
        found: int | None = await self._database.read(
            "latest_execution", lambda store: store.value("latest_execution", instance=instance)
        )
        return found


def _send(store: Statements, messages: Iterable[Outgoing]) -> None:
    now = store.now_ms()
    for message in messages:
        where = {"queue": message.queue, "routing_key": message.routing_key}
        visible_at = now + message.visible_after_ms
        if message.routing_key is not None:
            store.change("upsert_key", **where, visible_at=visible_at, handler=None)
        store.change("insert_message", **where, visible_at=visible_at, kind=None, name=None, body=message.body)


def _dequeue(store: Statements, queue: str, lock_timeout_ms: int) -> MessageBatch | None:
    now = store.now_ms()
    key = store.row("ready_keys", queue=queue, now=now, limit=1)
    single = store.row("ready_single", queue=queue, now=now)
    if key is None and single is None:
        return None
    lock = {"token": secrets.token_hex(16), "locked_until": now + lock_timeout_ms}
    if single is not None and (key is None or single[1] < key[1]):
        return _batch(None, lock["token"], store.rows("lock_single", id=single[0], **lock))
    assert key is not None
    where = {"queue": queue, "routing_key": key[0]}
    store.change("lock_key", **where, **lock)
    return _batch(key[0], lock["token"], store.rows("stamp_messages", **where, token=lock["token"], now=now))


def _batch(routing_key: str | None, token: object, rows: Sequence[Row]) -> MessageBatch:
    messages = [MailboxMessage(row[1], bytes(row[3]), row[4]) for row in sorted(rows, key=lambda row: row[:2])]
    return MessageBatch(routing_key, tuple(messages), str(token))


def _lost(operation: str) -> ProviderError:
    return ProviderError(operation, "the lock is not held", code="lock_lost")


def _ack(store: Statements, token: str, work: UnitOfWork) -> None:
    now = store.now_ms()
    held = store.row("find_key_lock", queue=None, token=token, now=now)
    if held is None and store.row("find_single_lock", token=token, now=now) is None:
        raise _lost("ack")
    if work.dead_letters:
        letters = json.dumps([(letter.message_id, letter.error) for letter in work.dead_letters])
        store.change("bury_messages", token=token, letters=letters, now=now)
    store.change("delete_stamped", token=token)
    _append(store, "ack", work.events)
    _send(store, work.outgoing)
    if held is not None:
        where = {"queue": held[2], "routing_key": held[0]}
        store.rows("release_key", **where, not_before=0, owner=None)
        store.change("delete_idle_key", **where)


def _append(store: Statements, operation: str, events: Iterable[StoredEvent]) -> None:
    for event in events:
        row = {name: getattr(event, name) for name in StoredEvent.__struct_fields__}
        if not store.change("append_event", **row):
            raise ProviderError(
                operation,
                f"event {event.event_id} of {event.instance!r}, execution {event.execution_id}, exists already",
                code="duplicate_event",
            )


def _abandon(store: Statements, token: str, delay_ms: int, uncount: int) -> None:
    now = store.now_ms()
    held = store.row("find_key_lock", queue=None, token=token, now=now)
    if held is not None:
        store.change("unstamp_messages", token=token, uncount=uncount)
        not_before = now + max(0, delay_ms)
        store.rows("release_key", queue=held[2], routing_key=held[0], not_before=not_before, owner=None)
    elif not store.change("release_single", token=token, now=now, visible_at=now + delay_ms, uncount=uncount):
        raise _lost("abandon")


def _renew(store: Statements, token: str, extend_ms: int) -> None:
    now = store.now_ms()
    times = {"token": token, "now": now, "locked_until": now + extend_ms}
    if not store.change("renew_key_lock", **times) and not store.change("renew_single_lock", **times):
        raise _lost("renew")
