"""The synchronous twin of `queen.client.admin`."""

# Written by scripts/sync_client.py from src/queen/client/admin.py; change that instead.

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from queen.client.portal import Portal
from queen.client.status import DeadLetter, GroupPartition, GroupStatus, PartitionStatus, QueueStatus
from queen.model import QUEUE_MODE, QueueConfig, Redriven, SeekResult


class Queues:
    """The queues: `q.queues`."""

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner

    def list(self) -> Sequence[QueueStatus]:
        """Every queue at a glance."""
        result: Sequence[QueueStatus] = self._portal.run(self._inner.list())
        return result

    def get(self, queue: str) -> QueueConfig:
        """A queue's configuration; raises QueueNotFound."""
        result: QueueConfig = self._portal.run(self._inner.get(queue))
        return result

    def configure(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: Any
    ) -> QueueConfig:
        """Create or change a queue: `configure("orders", lease_time=60, retry_limit=5)`.

        Options left out keep their value. `queen queue explain` and docs/reference/queue-options.md tell what there is.
        A duration is a number in the option's unit (seconds; `retry_delay` milliseconds), a text such as "90s" or
        "500ms", or a timedelta.
        """
        result: QueueConfig = self._portal.run(self._inner.configure(queue, namespace=namespace, task=task, **options))
        return result

    def partitions(self, queue: str, *, limit: int = 100) -> Sequence[PartitionStatus]:
        """The partitions of a queue, the fullest first."""
        result: Sequence[PartitionStatus] = self._portal.run(self._inner.partitions(queue, limit=limit))
        return result

    def pause(self, queue: str) -> None:
        """Hand out nothing more; pushes go on."""
        self._portal.run(self._inner.pause(queue))

    def resume(self, queue: str) -> None:
        """Hand out again."""
        self._portal.run(self._inner.resume(queue))

    def clear(self, queue: str) -> int:
        """Remove all messages; returns how many."""
        result: int = self._portal.run(self._inner.clear(queue))
        return result

    def delete(self, queue: str) -> bool:
        """Remove a queue with everything in it; tells whether there was one."""
        result: bool = self._portal.run(self._inner.delete(queue))
        return result


class Groups:
    """The consumer groups: `q.groups`."""

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner

    def list(self, queue: str | None = None) -> Sequence[GroupStatus]:
        """Every group on every queue, or on one."""
        result: Sequence[GroupStatus] = self._portal.run(self._inner.list(queue))
        return result

    def get(self, group: str) -> Sequence[GroupPartition]:
        """How far a group is, partition by partition."""
        result: Sequence[GroupPartition] = self._portal.run(self._inner.get(group))
        return result

    def seek(
        self,
        queue: str,
        group: str = QUEUE_MODE,
        *,
        to: str | datetime | int,
        partition: str | None = None,
        dry_run: bool = False,
    ) -> SeekResult:
        """Move a group: to "start", "end", a time, or a seq; `dry_run` only tells what would happen."""
        result: SeekResult = self._portal.run(
            self._inner.seek(queue, group, to=to, partition=partition, dry_run=dry_run)
        )
        return result

    def delete(self, group: str, *, queue: str | None = None, keep_start: bool = False) -> int:
        """Forget a group's cursors on one queue or all; returns how many there were.

        `keep_start` keeps where it had started, for when it comes back.
        """
        result: int = self._portal.run(self._inner.delete(group, queue=queue, keep_start=keep_start))
        return result


class DeadLetters:
    """The dead letters: `q.dead_letters`."""

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner

    def list(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        error_contains: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[DeadLetter]:
        """Dead letters that match, newest first."""
        result: Sequence[DeadLetter] = self._portal.run(
            self._inner.list(queue, group=group, error_contains=error_contains, limit=limit, offset=offset)
        )
        return result

    def get(self, number: int) -> DeadLetter:
        """One dead letter by its number; raises MessageNotFound."""
        result: DeadLetter = self._portal.run(self._inner.get(number))
        return result

    def redrive(
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
        result: Redriven = self._portal.run(
            self._inner.redrive(
                queue,
                ids=ids,
                group=group,
                error_contains=error_contains,
                before=before,
                to_queue=to_queue,
                to_all=to_all,
                data=data,
                limit=limit,
                dry_run=dry_run,
            )
        )
        return result

    def purge(
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
        result: int = self._portal.run(
            self._inner.purge(
                queue, ids=ids, group=group, error_contains=error_contains, before=before, dry_run=dry_run
            )
        )
        return result
