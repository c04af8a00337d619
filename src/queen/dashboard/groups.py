"""Groups: lag, cursors, seek with a preview, delete with what it frees."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from queen import errors
from queen.dashboard import charts
from queen.dashboard.acts import Done, Undo, act, ask
from queen.dashboard.frame import Visit, page
from queen.dashboard.look import GroupLook, QueueLook
from queen.dashboard.queues import ACTS_SHOWN, AuditEntry, GroupRow, audit_entry, group_rows, host_of, known
from queen.dashboard.words import count, group_name, plural
from queen.engine.groups import Groups as EngineGroups
from queen.model import SeekResult
from queen.server.wire import Wire

SHOWN: Final = 100
UNDONE: Final = 200
GROUPS_SHOWN: Final = 200


class GroupNotFound(errors.RequestError):
    """There is no such group on the queue."""

    code = "GROUP_NOT_FOUND"
    status = 404


class GroupList(Wire, kw_only=True):
    """Every group on every queue."""

    groups: list[GroupRow]
    found: int
    search: str | None
    host: str


class Lane(Wire, kw_only=True):
    """Where a group stands in one partition."""

    partition: str
    partition_id: int
    waiting: int
    oldest_seconds: float | None
    cursor: int
    newest: int
    failed: int
    consumed: int
    last_consumed_at: datetime | None
    ready_at: datetime | None
    lease_expires_at: datetime | None


class Group(Wire, kw_only=True):
    """One group on one queue."""

    queue: str
    row: GroupRow
    start_at: datetime
    created_at: datetime
    lanes: list[Lane]
    partition: str | None
    acts: list[AuditEntry]
    others: list[str]


@page("groups.html", "Groups")
async def groups(visit: Visit) -> GroupList:
    """Every group, the furthest behind first."""
    search = visit.text("search")
    rows = [
        row
        for queue in visit.look.queues.values()
        if visit.sees(queue.name)
        for row in group_rows(visit, queue)
        if search is None or search.lower() in row.name.lower() or search.lower() in row.queue.lower()
    ]
    rows.sort(key=lambda row: (-row.waiting, -(row.oldest_seconds or 0.0), row.name, row.queue))
    return GroupList(groups=rows[:GROUPS_SHOWN], found=len(rows), search=search, host=host_of(visit))


async def _known(visit: Visit, queue_field: str, group_field: str) -> tuple[QueueLook, GroupLook]:
    queue, name = await known(visit, queue_field), visit.need(group_field)
    found = next((each for each in visit.look.groups_of(queue.id) if each.consumer_group == name), None)
    if found is None:
        raise GroupNotFound(f"there is no group {name!r} on queue {queue.name!r}")
    return queue, found


@page("group.html", "Groups")
async def group(visit: Visit) -> Group:
    """One group on one queue."""
    queue, found = await _known(visit, "queue", "name")
    partition = visit.text("partition")
    name = found.consumer_group
    call: tuple[Any, ...] = ("group_lanes", queue.id, name, None, SHOWN)
    if partition is not None:
        call = ("group_lane", queue.id, name, partition)
    lanes, acts = await visit.looker.fetch_all(call, ("audit", queue.name, name, ACTS_SHOWN, None))
    return Group(
        queue=queue.name,
        row=next(row for row in group_rows(visit, queue) if row.name == name),
        start_at=found.start_at,
        created_at=found.created_at,
        lanes=[_lane(row, charts.now_of(visit.look.now)) for row in lanes],
        partition=partition,
        acts=[audit_entry(row) for row in acts],
        others=[each.consumer_group for each in visit.look.groups_of(queue.id) if each.consumer_group != name],
    )


def _lane(row: Any, now: datetime) -> Lane:
    oldest = row["oldest_at"]
    return Lane(
        partition=row["partition_name"],
        oldest_seconds=None if oldest is None or not row["waiting"] else max((now - oldest).total_seconds(), 0.0),
        cursor=row["last_consumed_seq"],
        newest=row["newest_seq"],
        failed=row["retry_count"],
        **{
            name: row[name]
            for name in ("partition_id", "waiting", "consumed", "last_consumed_at", "ready_at", "lease_expires_at")
        },
    )


def _target(visit: Visit) -> dict[str, Any]:
    """Where a seek goes to, from the form."""
    to = visit.text("to") or "start"
    if to not in ("start", "end", "time"):
        raise errors.InvalidRequest("to", "to must be start, end or time")
    found: dict[str, Any] = {"to": to, "partition": visit.text("partition")}
    if to == "time":
        try:
            moment = datetime.fromisoformat(visit.text("time") or "")
        except ValueError:
            raise errors.InvalidRequest("time", "time must be a date and time, such as 2026-11-15T04:00") from None
        found["time"] = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return found


async def _seek(visit: Visit, target: dict[str, Any], *, dry_run: bool) -> SeekResult:
    queue, name = visit.need("queue"), visit.need("group")
    return await visit.request.engine.queues.seek(queue, name, dry_run=dry_run, **target)


@ask("seek", "ask_seek.html")
async def ask_seek(visit: Visit) -> dict[str, Any]:
    """Where to move a group, and what that will deliver again or leave out."""
    queue, found = await _known(visit, "queue", "group")
    hour_ago = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return {"queue": queue.name, "group": found.consumer_group, "partition": visit.text("partition"), "time": hour_ago}


@ask("seek-preview", "ask_seek_preview.html")
async def ask_seek_preview(visit: Visit) -> dict[str, Any]:
    """What the seek of the form would do."""
    return {"result": await _seek(visit, _target(visit), dry_run=True)}


@act("seek")
async def seek(visit: Visit) -> Done:
    """Move a group's cursors."""
    queue, found = await _known(visit, "queue", "group")
    target = _target(visit)
    cursors = await visit.looker.fetch("cursors", queue.id, found.consumer_group, UNDONE + 1)
    result = await _seek(visit, target, dry_run=False)
    where = f"{target['time']:%Y-%m-%d %H:%M}" if target["to"] == "time" else f"the {target['to']}"
    text = (
        f"{group_name(found.consumer_group)} stands at {where} of {target['partition'] or queue.name}: "
        f"{count(result.redelivered)} will be delivered again, {count(result.skipped)} are left out."
    )
    undo = None
    if len(cursors) <= UNDONE and result.partitions:
        before = {
            row["name"]: row["last_consumed_seq"] for row in cursors if target["partition"] in (None, row["name"])
        }
        undo = Undo("seek-back", {
            "queue": queue.name, "group": found.consumer_group, "cursors": msgspec.json.encode(before).decode(),
        })  # fmt: skip
    detail = {"to": target["to"], "redelivered": result.redelivered, "skipped": result.skipped}
    return Done(text, queue.name, found.consumer_group, detail, undo)


@act("seek-back")
async def seek_back(visit: Visit) -> Done:
    """Put a group's cursors where they were."""
    queue, found = await _known(visit, "queue", "group")
    try:
        cursors = msgspec.json.decode(visit.need("cursors"), type=dict[str, int])
    except msgspec.MsgspecError:
        raise errors.InvalidRequest("cursors", "cursors must be partitions with their seqs") from None
    engine = visit.request.engine
    await EngineGroups(engine.database, engine.wake).seek_seqs(queue.name, found.consumer_group, cursors)
    text = f"{group_name(found.consumer_group)} stands where it was, in {plural(len(cursors), 'partition')}."
    return Done(text, queue.name, found.consumer_group)


@ask("forget", "ask_forget.html")
async def ask_forget(visit: Visit) -> dict[str, Any]:
    """What deleting a group frees."""
    queue, found = await _known(visit, "queue", "group")
    (row,) = await visit.looker.fetch("group_frees", queue.id, found.consumer_group)
    return {"queue": queue.name, "group": found, "frees": row}


@act("forget", "admin")
async def forget(visit: Visit) -> Done:
    """Delete a group from one queue."""
    queue, found = await _known(visit, "queue", "group")
    cursors = await visit.request.engine.queues.forget_group(found.consumer_group, queue.name)
    text = f"{group_name(found.consumer_group)} is forgotten on {queue.name}: {plural(cursors, 'cursor')} removed."
    return Done(text, queue.name, found.consumer_group, {"cursors": cursors}, page="groups")
