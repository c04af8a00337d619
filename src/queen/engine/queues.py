"""Queues: configure, pause, clear, delete; and their consumer groups: register, seek, forget."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from queen import errors
from queen.db.pool import Database, Row
from queen.engine.encryption import KeyRing
from queen.engine.options import validate_options
from queen.engine.wake import Wake
from queen.model import MAX_NAME, QueueConfig, SeekResult
from queen.sql import query


class Queues:
    """Queues and groups for an engine."""

    def __init__(self, database: Database, keys: KeyRing, wake: Wake) -> None:
        self._database = database
        self._keys = keys
        self._wake = wake

    async def configure(
        self, queue: str, options: Mapping[str, Any], *, namespace: str | None = None, task: str | None = None
    ) -> QueueConfig:
        """Create or change a queue; options left out keep their value, or take the default when new."""
        if len(queue.encode()) > MAX_NAME or "\0" in queue:
            raise errors.InvalidRequest("queue", f"queue must be a name of at most {MAX_NAME} bytes without NUL")
        checked = validate_options(options)
        if checked.get("encryption_enabled") and not self._keys:
            raise errors.EncryptionUnavailable(
                "encryptionEnabled needs a key: set QUEEN_ENCRYPTION_KEY to 64 hex digits on every broker"
            )
        row = await self._database.fetchrow(
            query("engine/configure"), queue, msgspec.json.encode(checked).decode(), namespace, task
        )
        self._wake.ready(queue, row["id"])
        return read_queue(row)

    async def queue(self, queue: str) -> QueueConfig | None:
        """A queue's configuration, or None."""
        rows = await self._database.fetch(query("engine/queue"), queue)
        return read_queue(rows[0]) if rows else None

    async def pause(self, queue: str, *, paused: bool = True) -> QueueConfig:
        """Stop (or resume) handing out messages of a queue; pushes go on."""
        if await self.queue(queue) is None:
            raise errors.QueueNotFound(f"there is no queue {queue!r}")
        return await self.configure(queue, {"paused": paused})

    async def delete(self, queue: str) -> bool:
        """Remove a queue with everything in it; tells whether there was one."""
        return bool((await self._database.fetchrow(query("engine/delete_queue"), queue))["existed"])

    async def clear(self, queue: str) -> int:
        """Remove all messages of a queue; returns how many."""
        return int((await self._database.fetchrow(query("engine/clear_queue"), queue))["removed"])

    async def seek(
        self,
        queue: str,
        group: str,
        to: Literal["start", "end", "time", "seq"],
        *,
        time: datetime | None = None,
        seq: int | None = None,
        partition: str | None = None,
        dry_run: bool = False,
    ) -> SeekResult:
        """Move a group's cursors; `dry_run` only tells what would be delivered again or skipped."""
        if (to == "time") != (time is not None) or (to == "seq") != (seq is not None):
            raise errors.InvalidRequest("to", "a seek to a time needs a time, one to a seq needs a seq, others neither")
        row = await self._database.fetchrow(query("engine/seek"), queue, group, to, time, seq, partition, dry_run)
        if not dry_run:
            found = await self.queue(queue)
            if found is not None:
                self._wake.ready(queue, found.id)
        return SeekResult(partitions=row["partitions"], redelivered=row["redelivered"], skipped=row["skipped"])

    async def forget_group(self, group: str, queue: str | None = None, *, subscription: bool = True) -> int:
        """Remove a group from one queue or all; returns how many cursors went."""
        return int((await self._database.fetchrow(query("engine/forget_group"), group, queue, subscription))["cursors"])


def read_queue(row: Row) -> QueueConfig:
    """A queue from its row."""
    return QueueConfig(**{name: row[name] for name in QueueConfig.__struct_fields__})
