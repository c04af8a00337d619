"""Queues and one queue: depth and lag per group, partitions as a heat map, leases, configuration, pause, push."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from queen import errors
from queen.dashboard import charts
from queen.dashboard.acts import Done, Undo, act, ask
from queen.dashboard.charts import Series
from queen.dashboard.frame import Visit, page
from queen.dashboard.look import QueueLook
from queen.dashboard.overview import QueueRow, queue_row, series_of
from queen.dashboard.words import count, plural, url
from queen.engine.options import BY_NAME, QUEUE_OPTIONS, QueueOption, validate_options
from queen.model import DEFAULT_PARTITION, NewMessage, QueueConfig
from queen.server.wire import Wire

CELLS: Final = 1024
LEASES_SHOWN: Final = 50
ACTS_SHOWN: Final = 20
_AGES: Final = (0.0, 1.0, 30.0, 300.0, 3600.0)
SORTS: Final = ("waiting", "oldest", "name", "in", "dead")


class Queues(Wire, kw_only=True):
    """Every queue."""

    queues: list[QueueRow]
    found: int
    search: str | None
    namespace: str | None
    namespaces: list[str]
    sort: str
    host: str
    next_cursor: str | None


class GroupRow(Wire, kw_only=True):
    """A group on one queue."""

    queue: str
    name: str
    waiting: int
    oldest_seconds: float | None
    behind: int
    partitions: int
    failing: int
    leases: int
    consumed: int
    failed: int
    last_consumed_at: datetime | None
    used_at: datetime
    mode: str


class Cell(Wire, kw_only=True):
    """One cell of the heat map: a partition, or several that wait about as long. `heat` goes from 0 (nothing) to 5."""

    partitions: int
    waiting: int
    oldest_seconds: float | None
    leased: int
    failing: int
    name: str
    partition_id: int
    heat: int
    skip: int


class Heat(Wire, kw_only=True):
    """The heat map; `skip` partitions wait longer than those shown."""

    queue: str
    group: str | None
    groups: list[str]
    cells: list[Cell]
    partitions: int
    skip: int
    zoomed: bool


class Lease(Wire, kw_only=True):
    """A lease that is out."""

    partition: str
    partition_id: int
    group: str
    messages: int
    acquired_at: datetime
    expires_at: datetime
    retry_count: int


class AuditEntry(Wire, kw_only=True):
    """Who did what, and when."""

    id: int
    at: datetime
    subject: str
    act: str
    queue: str | None
    target: str | None
    text: str


class Option(Wire, kw_only=True):
    """An option with its value here."""

    about: QueueOption
    value: Any


class Queue(Wire, kw_only=True):
    """One queue."""

    row: QueueRow
    kept: int
    max_queue_size: int
    config: QueueConfig
    groups: list[GroupRow]
    leases: list[Lease]
    range: str
    series: Series
    tab: str
    options: list[Option]
    acts: list[AuditEntry]
    host: str


@page("queues.html", "Queues")
async def queues(visit: Visit) -> Queues:
    """Every queue, the ones that need attention first."""
    search, namespace, sort = visit.text("search"), visit.text("namespace"), visit.text("sort") or "waiting"
    if sort not in SORTS:
        raise errors.InvalidRequest("sort", f"sort must be one of {', '.join(SORTS)}")
    if search is not None:
        await visit.look_again_for(search)
    seen = [queue for queue in visit.look.queues.values() if visit.sees(queue.name)]
    matching = [
        queue_row(visit.look, queue)
        for queue in seen
        if (search is None or search.lower() in queue.name.lower()) and (namespace in (None, queue.namespace))
    ]
    matching.sort(key=_order(sort))
    start, limit = max(visit.number("cursor", 0), 0), 100
    return Queues(
        queues=matching[start : start + limit],
        found=len(matching),
        search=search,
        namespace=namespace,
        namespaces=sorted({queue.namespace for queue in seen if queue.namespace}),
        sort=sort,
        host=host_of(visit),
        next_cursor=str(start + limit) if len(matching) > start + limit else None,
    )


def _order(sort: str) -> Any:
    return {
        "waiting": lambda row: (-row.waiting, row.name),
        "oldest": lambda row: (-(row.oldest_seconds or 0.0), row.name),
        "name": lambda row: row.name,
        "in": lambda row: (-row.pushed_per_second, row.name),
        "dead": lambda row: (-row.dead_letters, row.name),
    }[sort]


def host_of(visit: Visit) -> str:
    """What the visitor calls this broker."""
    return visit.request.headers.get(b"host", b"localhost:6632").decode("latin-1")


async def known(visit: Visit, field: str = "name") -> QueueLook:
    """The queue a visit is about; raises QueueNotFound, also for one the visitor may not know of."""
    name = visit.need(field)
    await visit.look_again_for(name)
    found = visit.look.queue(name)
    if found is None or not visit.sees(name):
        raise errors.QueueNotFound(f"there is no queue {name!r}")
    return found


@page("queue.html", "Queues")
async def queue(visit: Visit) -> Queue:
    """One queue."""
    found = await known(visit)
    config = await visit.request.engine.queues.queue(found.name)
    if config is None:
        raise errors.QueueNotFound(f"there is no queue {found.name!r}")
    chosen, tab = charts.wanted_range(visit.text("range")), visit.text("tab") or "now"
    leases, acts = await visit.looker.fetch_all(
        ("leases", found.id, LEASES_SHOWN), ("audit", found.name, None, ACTS_SHOWN, None)
    )
    return Queue(
        row=queue_row(visit.look, found),
        kept=found.kept,
        max_queue_size=found.max_queue_size,
        config=config,
        groups=group_rows(visit, found),
        leases=[_lease(row) for row in leases],
        range=chosen,
        series=await series_of(visit, chosen, found.id),
        tab=tab,
        options=[Option(about=each, value=getattr(config, each.name)) for each in QUEUE_OPTIONS if each.consulted],
        acts=[audit_entry(row) for row in acts],
        host=host_of(visit),
    )


def group_rows(visit: Visit, found: QueueLook) -> list[GroupRow]:
    """The groups of a queue, the furthest behind first."""
    now = charts.now_of(visit.look.now)
    return [
        GroupRow(
            queue=found.name,
            name=group.consumer_group,
            oldest_seconds=None if group.oldest_at is None else max((now - group.oldest_at).total_seconds(), 0.0),
            **{
                name: getattr(group, name)
                for name in ("waiting", "behind", "partitions", "failing", "leases", "consumed", "failed",
                             "last_consumed_at", "used_at", "mode")
            },
        )
        for group in visit.look.groups_of(found.id)
    ]  # fmt: skip


def audit_entry(row: Any) -> AuditEntry:
    """One act from its row."""
    return AuditEntry(**{name: row[name] for name in AuditEntry.__struct_fields__})


def _lease(row: Any) -> Lease:
    return Lease(
        partition=row["partition_name"],
        partition_id=row["partition_id"],
        group=row["consumer_group"],
        messages=row["batch_to"] - max(row["batch_from"] - 1, row["last_consumed_seq"]),
        acquired_at=row["lease_acquired_at"],
        expires_at=row["lease_expires_at"],
        retry_count=row["retry_count"],
    )


@page("heat.html", "Queues")
async def heat(visit: Visit) -> Heat:
    """The partitions of a queue as a heat map: the longest waiting first, several to a cell when there are many."""
    found = await known(visit)
    group, skip, take = visit.text("group"), max(visit.number("skip", 0), 0), visit.number("take", found.partitions)
    args = found.id, group, CELLS, skip, max(take, 1)
    rows = await visit.looker.cached(("heat", *args), "heat", *args)
    now, at, cells = charts.now_of(visit.look.now), skip, []
    for row in rows:
        oldest = None if row["oldest_at"] is None else max((now - row["oldest_at"]).total_seconds(), 0.0)
        cells.append(
            Cell(
                oldest_seconds=oldest,
                heat=0 if not row["waiting"] else sum((oldest or 0.0) >= age for age in _AGES),
                skip=at,
                **{name: row[name] for name in ("partitions", "waiting", "leased", "failing", "name", "partition_id")},
            )
        )
        at += row["partitions"]
    return Heat(
        queue=found.name,
        group=group,
        groups=[each.consumer_group for each in visit.look.groups_of(found.id)],
        cells=cells,
        partitions=found.partitions,
        skip=skip,
        zoomed=skip > 0 or take < found.partitions,
    )


def read_options(visit: Visit, config: QueueConfig) -> dict[str, Any]:
    """The options of the form that differ from what they are; raises InvalidRequest."""
    given: dict[str, Any] = {}
    for name, text in visit.form.items():
        if name in BY_NAME:
            given[name] = _value(BY_NAME[name], text)
    checked = validate_options(given)
    return {name: value for name, value in checked.items() if getattr(config, name) != value}


def _value(option: QueueOption, text: str) -> Any:
    text = text.strip()
    if option.kind == "yes or no":
        return {"true": True, "false": False}.get(text, text)
    try:
        return int(text) if option.kind == "number" else text
    except ValueError:
        return text


async def _config(visit: Visit) -> QueueConfig:
    name = visit.need("queue")
    config = await visit.request.engine.queues.queue(name)
    if config is None:
        raise errors.QueueNotFound(f"there is no queue {name!r}")
    return config


@ask("configure", "ask_configure.html")
async def ask_configure(visit: Visit) -> dict[str, Any]:
    """What the changes of the form will do."""
    config = await _config(visit)
    visit.form = {name: visit.request.query[name] for name in visit.request.query}
    changes = read_options(visit, config)
    found = await known(visit, "queue")
    rows = [(BY_NAME[name], getattr(config, name), new, _effect(name, new, found)) for name, new in changes.items()]
    return {"queue": config.name, "changes": rows}


def _effect(name: str, value: Any, found: QueueLook) -> str:
    """What a change does to what is there already."""
    if name == "paused":
        waiting = plural(found.waiting, "message")
        return "Nothing is handed out from now on." if value else f"{waiting} may be handed out."
    if name == "max_queue_size" and value:
        left = value - found.waiting
        return f"Room for {count(left)} more." if left > 0 else "The queue is full at once: every push is refused."
    if name in ("lease_time", "retry_delay"):
        return "Counts from the next batch on; leases that are out keep their time."
    if name == "retention_seconds" and value:
        return "Removes what is older within minutes, if retention is enabled. There is no way back."
    if name == "max_wait_time_seconds" and value:
        return "What waited longer becomes dead letters within minutes."
    if name == "encryption_enabled":
        return "Counts for messages pushed from now on; those there stay as they are."
    return "Counts from the next pop on."


@act("configure")
async def configure(visit: Visit) -> Done:
    """Change the options of a queue, all or none."""
    config = await _config(visit)
    changes = read_options(visit, config)
    before = {name: getattr(config, name) for name in changes}
    if not changes:
        return Done("Nothing was changed: all values are what they were.", noted=False)
    await visit.request.engine.queues.configure(config.name, changes)
    said = ", ".join(f"{name} is now {_said(value)} (was {_said(before[name])})" for name, value in changes.items())
    undo = Undo("configure", {"queue": config.name, **{name: _said(value) for name, value in before.items()}})
    return Done(f"{config.name}: {said}.", config.name, None, {"changed": changes, "before": before}, undo)


def _said(value: Any) -> str:
    return msgspec.json.encode(value).decode().strip('"')


@ask("pause", "ask_pause.html")
async def ask_pause(visit: Visit) -> dict[str, Any]:
    """What a pause does."""
    return {"queue": await known(visit, "queue"), "pause": True}


@ask("resume", "ask_pause.html")
async def ask_resume(visit: Visit) -> dict[str, Any]:
    """What a resume does."""
    return {"queue": await known(visit, "queue"), "pause": False}


@act("pause")
async def pause(visit: Visit) -> Done:
    """Stop handing out messages of a queue."""
    name = visit.need("queue")
    await visit.request.engine.queues.pause(name)
    text = f"{name} is paused: pushes are stored, nothing is handed out."
    return Done(text, name, undo=Undo("resume", {"queue": name}))


@act("resume")
async def resume(visit: Visit) -> Done:
    """Hand out messages of a queue again."""
    name = visit.need("queue")
    await visit.request.engine.queues.pause(name, paused=False)
    return Done(f"{name} hands out messages again.", name, undo=Undo("pause", {"queue": name}))


@ask("push", "ask_push.html")
async def ask_push(visit: Visit) -> dict[str, Any]:
    """A form for a test message."""
    return {"queue": visit.need("queue"), "partition": DEFAULT_PARTITION}


@act("push", "write", "push")
async def push(visit: Visit) -> Done:
    """Push one message."""
    name, partition = visit.need("queue"), visit.text("partition") or DEFAULT_PARTITION
    payload = visit.text("payload") or "null"
    try:
        msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise errors.InvalidRequest("payload", f"the payload is not JSON: {error}") from None
    item = NewMessage(
        queue=name,
        payload=payload,
        partition=partition,
        transaction_id=visit.text("transaction"),
        producer_sub=visit.identity.subject,
    )
    (pushed,) = await visit.request.engine.push([item])
    where = url("message", partition=pushed.partition_id, transaction=pushed.transaction_id)
    undo = Undo("delete-message", {
        "queue": name, "partition": str(pushed.partition_id), "transaction": pushed.transaction_id,
    })  # fmt: skip
    if pushed.status == "duplicate":
        return Done("It was there already: the transaction id is a duplicate.", name, page=where, noted=False)
    return Done(f"Pushed to {name} / {partition}.", name, partition, {"id": str(pushed.id)}, undo, where)


@ask("clear", "ask_clear.html")
async def ask_clear(visit: Visit) -> dict[str, Any]:
    """How much a clear removes."""
    return {"queue": await known(visit, "queue"), "whole": False}


@ask("delete-queue", "ask_clear.html")
async def ask_delete(visit: Visit) -> dict[str, Any]:
    """How much deleting a queue removes."""
    return {"queue": await known(visit, "queue"), "whole": True}


@act("clear", "admin")
async def clear(visit: Visit) -> Done:
    """Remove all messages of a queue."""
    name = _confirmed(visit)
    removed = await visit.request.engine.queues.clear(name)
    return Done(f"{plural(removed, 'message')} removed from {name}.", name, None, {"removed": removed})


@act("delete-queue", "admin")
async def delete(visit: Visit) -> Done:
    """Remove a queue with everything in it."""
    name = _confirmed(visit)
    if not await visit.request.engine.queues.delete(name):
        raise errors.QueueNotFound(f"there is no queue {name!r}")
    return Done(f"{name} is gone, with everything in it.", name, page="queues")


def _confirmed(visit: Visit) -> str:
    name = visit.need("queue")
    if visit.text("confirm") != (name or None):
        raise errors.InvalidRequest("confirm", f"type the name of the queue, {name}, to confirm")
    return name
