"""Queues, consumer groups and dead letters: looking at them and changing them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from queen.client.payload import encode
from queen.client.push import require_name
from queen.client.status import DeadLetter, GroupPartition, GroupStatus, PartitionStatus, QueueStatus
from queen.client.transport import SeekTo
from queen.engine import Selection
from queen.errors import InvalidRequest
from queen.model import QUEUE_MODE, QueueConfig, Redriven, SeekResult

if TYPE_CHECKING:
    from queen.client.client import Client


class Queues:
    """The queues: `q.queues`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> Sequence[QueueStatus]:
        """Every queue at a glance."""
        return await self._client.retry.run(self._client.transport.queues)

    async def get(self, queue: str) -> QueueConfig:
        """A queue's configuration; raises QueueNotFound."""
        return await self._client.retry.run(lambda: self._client.transport.queue(queue))

    async def configure(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: Any
    ) -> QueueConfig:
        """Create or change a queue: `configure("orders", lease_time=60, retry_limit=5)`.

        Options left out keep their value. `queen queue explain` and docs/reference/queue-options.md tell what there is.
        A duration is a number in the option's unit (seconds; `retry_delay` milliseconds), a text such as "90s" or
        "500ms", or a timedelta.
        """
        require_name(queue)
        return await self._client.retry.run(lambda: self._client.transport.configure(queue, options, namespace, task))

    async def partitions(self, queue: str, *, limit: int = 100) -> Sequence[PartitionStatus]:
        """The partitions of a queue, the fullest first."""
        return await self._client.retry.run(lambda: self._client.transport.partitions(queue, limit))

    async def pause(self, queue: str) -> None:
        """Hand out nothing more; pushes go on."""
        await self._client.retry.run(lambda: self._client.transport.pause(queue, paused=True))

    async def resume(self, queue: str) -> None:
        """Hand out again."""
        await self._client.retry.run(lambda: self._client.transport.pause(queue, paused=False))

    async def clear(self, queue: str) -> int:
        """Remove all messages; returns how many."""
        return await self._client.retry.run(lambda: self._client.transport.clear_queue(queue))

    async def delete(self, queue: str) -> bool:
        """Remove a queue with everything in it; tells whether there was one."""
        return await self._client.retry.run(lambda: self._client.transport.delete_queue(queue))


class Groups:
    """The consumer groups: `q.groups`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, queue: str | None = None) -> Sequence[GroupStatus]:
        """Every group on every queue, or on one."""
        found = await self._client.retry.run(self._client.transport.groups)
        return [group for group in found if queue is None or group.queue == queue]

    async def get(self, group: str) -> Sequence[GroupPartition]:
        """How far a group is, partition by partition."""
        return await self._client.retry.run(lambda: self._client.transport.group(group))

    async def seek(
        self,
        queue: str,
        group: str = QUEUE_MODE,
        *,
        to: str | datetime | int,
        partition: str | None = None,
        dry_run: bool = False,
    ) -> SeekResult:
        """Move a group: to "start", "end", a time, or a seq; `dry_run` only tells what would happen."""
        if isinstance(to, str) and to not in ("start", "end"):
            raise InvalidRequest("to", "to must be 'start', 'end', a time or a seq")
        time = to if isinstance(to, datetime) else None
        seq = to if isinstance(to, int) else None
        where: SeekTo = "time" if time else "seq" if seq is not None else "end" if to == "end" else "start"
        return await self._client.retry.run(
            lambda: self._client.transport.seek(
                queue,
                group,
                where,
                time=time,
                seq=seq,
                partition=partition,
                dry_run=dry_run,
            )
        )

    async def delete(self, group: str, *, queue: str | None = None, keep_start: bool = False) -> int:
        """Forget a group's cursors on one queue or all; returns how many there were.

        `keep_start` keeps where it had started, for when it comes back.
        """
        return await self._client.retry.run(
            lambda: self._client.transport.delete_group(group, queue, keep_start=keep_start)
        )


class DeadLetters:
    """The dead letters: `q.dead_letters`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        error_contains: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[DeadLetter]:
        """Dead letters that match, newest first."""
        selection = Selection(queue=queue, group=group, error_contains=error_contains)
        return await self._client.retry.run(lambda: self._client.transport.dead_letters(selection, limit, offset))

    async def get(self, number: int) -> DeadLetter:
        """One dead letter by its number; raises MessageNotFound."""
        return await self._client.retry.run(lambda: self._client.transport.dead_letter(number))

    async def redrive(
        self,
        queue: str | None = None,
        *,
        ids: Sequence[int] | None = None,
        group: str | None = None,
        error_contains: str | None = None,
        before: datetime | None = None,
        to_queue: str | None = None,
        to_all: bool = False,
        data: object = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> Redriven:
        """Push dead letters that match again: for the group that failed, `to_all` groups, or to another queue.

        With a single id, `data` replaces the payload.
        """
        selection = Selection(ids=ids, queue=queue, group=group, error_contains=error_contains, before=before)
        payload = None if data is None else encode(data)
        return await self._client.retry.run(
            lambda: self._client.transport.redrive(
                selection, to_queue=to_queue, to_all=to_all, payload=payload, limit=limit, dry_run=dry_run
            ),
            repeatable=False,
        )

    async def purge(
        self,
        queue: str | None = None,
        *,
        ids: Sequence[int] | None = None,
        group: str | None = None,
        error_contains: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> int:
        """Remove dead letters that match; returns how many."""
        selection = Selection(ids=ids, queue=queue, group=group, error_contains=error_contains, before=before)
        return await self._client.retry.run(lambda: self._client.transport.purge(selection, dry_run=dry_run))
