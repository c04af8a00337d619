"""System: brokers, pools, services, PostgreSQL's health, settings and where each came from, and the audit log."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any, Final

from queen import config
from queen.dashboard.acts import Done, Undo, act, ask
from queen.dashboard.charts import Series
from queen.dashboard.frame import Visit, page
from queen.dashboard.queues import AuditEntry, audit_entry
from queen.dashboard.words import count
from queen.engine.reports import DatabaseReport, Reports, ServiceReport, Session, TableReport
from queen.server.wire import Wire

SHOWN: Final = 50
EVENTS: Final = 12
TABLES: Final = 12


class Process(Wire, kw_only=True):
    """This broker process."""

    version: str
    worker: int
    uptime: float
    pid: int
    cpu_percent: float
    memory: int
    pool_size: int
    pool_idle: int
    open_pages: int
    parked_pops: int
    buffered: int
    buffer_path: str
    push_maintenance: bool
    pop_maintenance: bool
    look_seconds: float


class SettingRow(Wire, kw_only=True):
    """A setting, its value, and where that came from."""

    name: str
    value: str
    origin: str
    description: str


class Statement(Wire, kw_only=True):
    """A statement and what it cost, as PostgreSQL counts it."""

    statement: str
    calls: int
    mean_ms: float
    total_ms: float


class Client(Wire, kw_only=True):
    """Sessions of one application."""

    application: str
    sessions: int
    active: int
    since: datetime | None


class Event(Wire, kw_only=True):
    """Something worth knowing that happened."""

    at: datetime
    kind: str
    text: str
    who: str | None
    queue: str | None


class System(Wire, kw_only=True):
    """Everything about the running of it."""

    tab: str
    process: Process
    services: list[ServiceReport]
    database: DatabaseReport
    tables: list[TableReport]
    sessions: list[Session]
    clients: list[Client]
    statements: list[Statement]
    settings: list[SettingRow]
    acts: list[AuditEntry]
    next_cursor: str | None
    memory: Series
    events: list[Event]


@page("system.html", "System", wide=True)
async def system(visit: Visit) -> System:
    """How everything runs."""
    database = visit.request.engine.database
    services = await Reports(database).services()
    postgres = await Reports(database).postgres()
    tables = [each for each in postgres.tables if each.live_rows or each.dead_rows]
    before = visit.number("cursor", 0) or None
    acts, clients, there = await visit.looker.fetch_all(
        ("audit", visit.text("queue"), None, SHOWN + 1, before), ("clients",), ("has_statements",)
    )
    statements = await visit.looker.fetch("statements") if there[0]["there"] else []
    events = await visit.looker.fetch("events", EVENTS)
    return System(
        tab=visit.text("tab") or "now",
        process=_process(visit),
        services=services,
        database=postgres.database,
        tables=sorted(tables, key=lambda table: -(table.size + table.index_size))[:TABLES],
        sessions=[each for each in postgres.sessions if (each.transaction_seconds or 0.0) >= 1],
        clients=[Client(**{name: row[name] for name in Client.__struct_fields__}) for row in clients],
        statements=[Statement(**{name: row[name] for name in Statement.__struct_fields__}) for row in statements],
        settings=_settings(visit) if visit.may("admin") else [],
        acts=[audit_entry(row) for row in acts[:SHOWN]],
        next_cursor=str(acts[SHOWN - 1]["id"]) if len(acts) > SHOWN else None,
        memory=_memory(visit),
        events=[Event(**{name: row[name] for name in Event.__struct_fields__}) for row in events],
    )


def _process(visit: Visit) -> Process:
    broker = visit.request.broker
    sample = broker.samples.between(0.0, time.time())[-1]
    return Process(
        version=broker.version,
        worker=broker.worker,
        uptime=time.time() - broker.started_at,
        pid=os.getpid(),
        cpu_percent=sample.cpu_percent,
        memory=sample.rss,
        pool_size=sample.pool_size,
        pool_idle=sample.pool_idle,
        open_pages=visit.looker.watchers,
        parked_pops=sum(visit.request.engine.parked.values()),
        buffered=broker.buffer.pending,
        buffer_path=str(broker.settings.buffer_path),
        push_maintenance=broker.watch.modes.push,
        pop_maintenance=broker.watch.modes.pop,
        look_seconds=visit.look.cost,
    )


def _memory(visit: Visit) -> Series:
    taken = visit.request.broker.samples.between(time.time() - 3600, time.time())
    empty: list[float | None] = []
    return Series(
        at=[int(each.at) for each in taken],
        pushed=[round(each.cpu_percent, 1) for each in taken],
        waiting=[each.rss for each in taken],
        oldest=[each.pool_size - each.pool_idle for each in taken],
        done=empty,
        failed=empty,
    )


def _settings(visit: Visit) -> list[SettingRow]:
    given = visit.request.settings
    rows = []
    for each in config.settings():
        value = getattr(given, each.name)
        named = [name for name in (each.variable, *each.aliases) if name in os.environ]
        origin = f"environment: {named[0]}" if named else "default" if value == each.default else "file or flag"
        shown = "set" if each.secret and value else _said(value)
        rows.append(SettingRow(name=each.name, value=shown, origin=origin, description=each.description))
    return rows


def _said(value: object) -> str:
    """A setting's value for people."""
    match value:
        case None | () | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case int() if value >= 100_000:
            return count(value)
        case tuple():
            return ", ".join(map(str, value))
    return str(value)


@ask("maintenance", "ask_maintenance.html")
async def ask_maintenance(visit: Visit) -> dict[str, Any]:
    """What a maintenance mode means."""
    mode = "pop" if visit.text("mode") == "pop" else "push"
    modes = visit.request.broker.watch.modes
    return {"mode": mode, "on": not getattr(modes, mode), "buffered": visit.request.broker.buffer.pending}


@act("maintenance", "admin")
async def maintenance(visit: Visit) -> Done:
    """Switch a maintenance mode."""
    on = visit.text("on") == "true"
    if visit.text("mode") == "pop":
        await visit.request.broker.watch.switch("pop", on=on)
        text = "Pops are switched off." if on else "Pops are handed out again."
    else:
        await visit.request.broker.watch.switch("push", on=on)
        text = "Pushes go to the disk buffer." if on else "Pushes go to the database; the buffer drains."
    mode = visit.text("mode") or "push"
    undo = Undo("maintenance", {"mode": mode, "on": "false" if on else "true"})
    return Done(text, None, mode, {"on": on}, undo)
