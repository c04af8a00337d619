"""Queues, groups, dead letters and traces over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import Raw

from queen.client.http import HttpVerbs
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
from queen.client.wire import Wire, number
from queen.engine import Selection
from queen.engine.options import BY_NAME, validate_options
from queen.errors import InvalidRequest
from queen.ids import to_wire
from queen.model import DEFAULT_PARTITION, QueueConfig, Redriven, SeekResult

# Options that the contract calls otherwise than the schema does.
_WIRE_NAMES: Final[Mapping[str, str]] = {"max_queue_size": "maxSize"}


class _Counts(Wire):
    total: int = 0
    pending: int = 0
    processing: int = 0


class _Queue(Wire):
    name: str
    created_at: datetime
    namespace: str | None = None
    task: str | None = None
    partitions: int = 0
    messages: _Counts = msgspec.field(default_factory=_Counts)
    paused: bool = False


class _Queues(Wire):
    queues: list[_Queue]
    next_cursor: str | None = None


class _Partition(Wire):
    name: str
    stats: _Counts
    newest_message: datetime | None = None


class _Partitions(Wire):
    partitions: list[_Partition]


class _Group(Wire):
    name: str
    queue_name: str
    members: int = 0
    partitions_with_lag: int = 0
    total_lag: int | None = None
    max_time_lag: float | None = None
    subscription_mode: str | None = None


class _GroupPartition(Wire):
    partition: str
    offset_lag: int | None = None
    time_lag_seconds: float | None = None
    total_consumed: int | None = None
    lease_active: bool = False
    last_consumed_at: datetime | None = None


class _GroupPartitions(Wire):
    partitions: list[_GroupPartition]


class _DeadLetter(Wire):
    id: UUID
    dead_letter_id: str
    transaction_id: str
    queue: str
    partition: str
    consumer_group: str
    error_message: str | None
    retry_count: int
    data: Raw
    created_at: datetime
    failed_at: datetime


class _DeadLetters(Wire):
    messages: list[_DeadLetter]


class _Note(Wire, rename=None):
    event_type: str
    data: Any
    consumer_group: str | None
    created_at: datetime


class _Traced(Wire):
    id: UUID
    queue: str
    partition: str
    partition_id: str
    transaction_id: str
    created_at: datetime
    parent_id: UUID | None = None


class _Trace(Wire):
    messages: list[_Traced]


class _Notes(Wire):
    traces: list[_Note]


class _Moved(Wire):
    partitions_updated: int = 0
    redelivered: int = 0
    skipped: int = 0


class _Figures(Wire):
    matched: int = 0
    redriven: int = 0
    deleted_partitions: int = 0
    cleared: int = 0
    existed: bool = False


class HttpTransport(HttpVerbs):
    """Everything a client does, over HTTP."""

    async def _need(self, method: str, path: str, kind: type[Any], **rest: Any) -> Any:
        return await self.call(method, path, kind, **rest)

    async def configure(
        self, queue: str, options: Mapping[str, Any], namespace: str | None, task: str | None
    ) -> QueueConfig:
        """Create or change a queue; options left out keep their value."""
        body = {BY_NAME[name].wire: value for name, value in validate_options(options).items()}
        body |= {"namespace": namespace, "task": task}
        return _config(await self._need("PUT", f"/api/v1/queues/{_quoted(queue)}/options", dict[str, Any], body=body))

    async def queue(self, queue: str) -> QueueConfig:
        """One queue's configuration."""
        return _config(await self._need("GET", f"/api/v1/queues/{_quoted(queue)}/options", dict[str, Any]))

    async def queues(self) -> list[QueueStatus]:
        """Every queue at a glance."""
        found: list[_Queue] = []
        query: dict[str, Any] | None = None
        while True:
            page: _Queues = await self._need("GET", "/api/v1/resources/queues", _Queues, query=query)
            found += page.queues
            if page.next_cursor is None:
                break
            query = {"cursor": page.next_cursor}
        return sorted(
            (
                QueueStatus(
                    name=one.name,
                    namespace=one.namespace or "",
                    task=one.task or "",
                    partitions=one.partitions,
                    depth=one.messages.pending + one.messages.processing,
                    total=one.messages.total,
                    processing=one.messages.processing,
                    paused=one.paused,
                    created_at=one.created_at,
                )
                for one in found
            ),
            key=lambda one: one.name,
        )

    async def partitions(self, queue: str, limit: int) -> list[PartitionStatus]:
        """The partitions of a queue, the fullest first."""
        found: _Partitions = await self._need("GET", f"/api/v1/resources/queues/{_quoted(queue)}", _Partitions)
        made = [
            PartitionStatus(
                name=one.name,
                depth=one.stats.pending + one.stats.processing,
                total=one.stats.total,
                processing=one.stats.processing,
                newest_at=one.newest_message,
            )
            for one in found.partitions
        ]
        return sorted(made, key=lambda one: (-one.depth, one.name))[:limit]

    async def pause(self, queue: str, *, paused: bool) -> None:
        """Stop or resume handing out."""
        word = "pause" if paused else "resume"
        await self._need("POST", f"/api/v1/queues/{_quoted(queue)}/{word}", dict[str, Any], body={})

    async def delete_queue(self, queue: str) -> bool:
        """Remove a queue with everything in it."""
        found: _Figures = await self._need("DELETE", f"/api/v1/resources/queues/{_quoted(queue)}", _Figures)
        return found.existed

    async def clear_queue(self, queue: str) -> int:
        """Remove all messages of a queue."""
        found: _Figures = await self._need("DELETE", f"/api/v1/queues/{_quoted(queue)}/clear", _Figures)
        return found.cleared

    async def groups(self) -> list[GroupStatus]:
        """Every group on every queue."""
        found: list[_Group] = await self._need("GET", "/api/v1/consumer-groups", list[_Group]) or []
        made = [
            GroupStatus(
                group=one.name,
                queue=one.queue_name,
                partitions=one.members,
                lagging=one.partitions_with_lag,
                lag=one.total_lag,
                behind=float(one.max_time_lag or 0),
                mode=one.subscription_mode,
            )
            for one in found
        ]
        return sorted(made, key=lambda one: (one.queue, one.group))

    async def group(self, group: str) -> list[GroupPartition]:
        """One group, partition by partition."""
        found: dict[str, _GroupPartitions] = (
            await self._need("GET", f"/api/v1/consumer-groups/{_quoted(group)}", dict[str, _GroupPartitions]) or {}
        )
        made = [
            GroupPartition(
                queue=queue,
                partition=one.partition,
                lag=one.offset_lag or 0,
                behind=float(one.time_lag_seconds or 0),
                consumed=one.total_consumed or 0,
                leased=one.lease_active,
                last_consumed_at=one.last_consumed_at,
            )
            for queue, partitions in found.items()
            for one in partitions.partitions
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
        if partition is not None and to != "seq":
            raise InvalidRequest("partition", "over HTTP only a seek to a seq takes a partition")
        body: dict[str, Any] = {"dryRun": dry_run}
        if to == "seq":
            body["seq"] = {partition or DEFAULT_PARTITION: seq}
        elif to == "time":
            body["timestamp"] = time
        else:
            body["toEnd" if to == "end" else "toBeginning"] = True
        path = f"/api/v1/consumer-groups/{_quoted(group)}/queues/{_quoted(queue)}/seek"
        found: _Moved = await self._need("POST", path, _Moved, body=body)
        return SeekResult(partitions=found.partitions_updated, redelivered=found.redelivered, skipped=found.skipped)

    async def delete_group(self, group: str, queue: str | None, *, keep_start: bool) -> int:
        """Forget a group."""
        path = f"/api/v1/consumer-groups/{_quoted(group)}" + ("" if queue is None else f"/queues/{_quoted(queue)}")
        query = {"deleteMetadata": "false" if keep_start else "true"}
        found: _Figures = await self._need("DELETE", path, _Figures, query=query)
        return found.deleted_partitions

    async def dead_letters(self, selection: Selection, limit: int, offset: int) -> list[DeadLetter]:
        """Dead letters, newest first."""
        query = {**_selected(selection), "limit": limit, "offset": offset}
        query.pop("ids", None)
        found: _DeadLetters = await self._need("GET", "/api/v1/dlq", _DeadLetters, query=query)
        return [_dead_letter(one) for one in found.messages]

    async def dead_letter(self, number: int) -> DeadLetter:
        """One dead letter."""
        wire = to_wire("dead-letter", number)
        return _dead_letter(await self._need("GET", f"/api/v1/dlq/{wire}", _DeadLetter))

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
        body: dict[str, Any] = {**_selected(selection), "toAll": to_all, "limit": limit, "dryRun": dry_run}
        if to_queue is not None:
            body["toQueue"] = to_queue
        if payload is not None:
            body["payload"] = Raw(payload.encode())
        found: _Figures = await self._need("POST", "/api/v1/dlq/redrive", _Figures, body=body)
        return Redriven(matched=found.matched, redriven=found.redriven)

    async def purge(self, selection: Selection, *, dry_run: bool) -> int:
        """Remove dead letters."""
        body = {**_selected(selection), "dryRun": dry_run}
        found: _Figures = await self._need("POST", "/api/v1/dlq/purge", _Figures, body=body)
        return found.matched

    async def trace(self, trace_id: UUID) -> list[Traced]:
        """Every message of a trace with its notes."""
        found: _Trace = await self._need("GET", f"/api/v1/traces/id/{trace_id}", _Trace)
        made: list[Traced] = []
        for one in found.messages:
            path = f"/api/v1/traces/{one.partition_id}/{_quoted(one.transaction_id)}"
            told: _Notes = await self._need("GET", path, _Notes)
            made.append(
                Traced(
                    id=one.id,
                    queue=one.queue,
                    partition=one.partition,
                    partition_id=number("partition", one.partition_id),
                    transaction_id=one.transaction_id,
                    parent_id=one.parent_id,
                    created_at=one.created_at,
                    notes=[
                        Note(event=note.event_type, data=note.data, group=note.consumer_group, at=note.created_at)
                        for note in told.traces
                    ],
                )
            )
        return made


def _dead_letter(one: _DeadLetter) -> DeadLetter:
    return DeadLetter(
        id=number("dead-letter", one.dead_letter_id),
        queue=one.queue,
        partition=one.partition,
        group=one.consumer_group,
        message_id=one.id,
        transaction_id=one.transaction_id,
        error=one.error_message or "",
        retry_count=one.retry_count,
        payload=bytes(one.data).decode(),
        created_at=one.created_at,
        failed_at=one.failed_at,
    )


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return _WIRE_NAMES.get(name) or first + "".join(word.capitalize() for word in rest)


def _config(found: Mapping[str, Any]) -> QueueConfig:
    return msgspec.convert({name: found[_camel(name)] for name in QueueConfig.__struct_fields__}, QueueConfig)


def _selected(selection: Selection) -> dict[str, Any]:
    fields = {
        "ids": None if selection.ids is None else [to_wire("dead-letter", one) for one in selection.ids],
        "queue": selection.queue,
        "consumerGroup": selection.group,
        "errorContains": selection.error_contains,
        "before": selection.before,
    }
    return {name: value for name, value in fields.items() if value is not None}
