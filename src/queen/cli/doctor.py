"""`queen doctor`: look for what goes wrong in practice."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import click

from queen.cli.target import Target, targeted
from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database, PoolOptions
from queen.db.repair import compare
from queen.errors import QueenError, SchemaOutdated
from queen.sql import query

GIBIBYTE = 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    state: Literal["ok", "fault", "unknown"]
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a fault."""

    max_skew: float
    max_age: float
    min_free: float
    max_unused: float


@click.command()
@click.option("--max-skew", default=2.0, show_default=True, help="Seconds the clocks may differ.")
@click.option("--max-age", default=300.0, show_default=True, help="Seconds a transaction may be open.")
@click.option("--min-free", default=1.0, show_default=True, help="GiB that must be free on the disk.")
@click.option("--max-unused", default=30.0, show_default=True, help="Days a group may go without asking for messages.")
@targeted
def command(target: Target, max_skew: float, max_age: float, min_free: float, max_unused: float) -> None:
    """Look for what goes wrong in practice. Ends with 4 when it finds a fault, 5 when nothing answers."""
    limits = Limits(max_skew, max_age, min_free, max_unused)
    if target.url is not None and target.url.startswith("http"):
        findings = asyncio.run(_gathered(_broker(target)))
    elif target.url is not None:
        findings = asyncio.run(_gathered(_database(target, target.url, limits)))
    else:
        with EmbeddedServer.start(target.settings.data_dir) as server:
            findings = asyncio.run(_gathered(_database(target, server.dsn(), limits)))
    colours = {"ok": "green", "fault": "red", "unknown": "yellow"}
    if target.as_table:
        for one in findings:
            click.echo(f"{click.style(one.state.ljust(8), fg=colours[one.state])}{one.check.ljust(20)}{one.text}")
    else:
        target.rows([{"check": one.check, "state": one.state, "text": one.text} for one in findings])
    faults = {one.check for one in findings if one.state == "fault"}
    if faults:
        raise SystemExit(5 if "reachability" in faults else 4)


async def _gathered(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in findings]


async def _broker(target: Target) -> AsyncIterator[Finding]:
    try:
        async with target.client() as client:
            queues = await client.queues.list()
        yield Finding("reachability", "ok", f"the broker answers and has {len(queues)} queues")
    except QueenError as error:
        yield Finding("reachability", "fault", str(error))


Check = Callable[[Database, Limits], Awaitable[Finding]]


async def _database(target: Target, url: str, limits: Limits) -> AsyncIterator[Finding]:
    try:
        async with Database(url, PoolOptions(size=2, pooler="transaction")) as database:
            row = await database.fetchrow(query("doctor/server"))
            place = (
                "a standby: read only"
                if row["standby"]
                else f"{row['connections']} of {row['max_connections']} connections"
            )
            state: Literal["ok", "fault"] = "fault" if row["standby"] else "ok"
            yield Finding("reachability", state, f"PostgreSQL {row['version']} answers, {place}")
            yield await _schema(url)
            yield await _pooler(url, target.settings.pooler)
            for check in (_autovacuum, _oldest_transaction, _services, _groups, _clock, _disk):
                yield await check(database, limits)
    except (QueenError, ConnectionError) as error:
        yield Finding("reachability", "fault", str(error))


async def _schema(url: str) -> Finding:
    waiting: list[str] = []
    async with migrate.connect(url) as connection:
        for migrations in migrate.SETS.values():
            entries = await migrate.status(connection, migrations)
            waiting += [
                f"{migrations.schema}/{entry.name} {entry.state}" for entry in entries if entry.state != "applied"
            ]
        if not waiting:
            broken = [one for each in migrate.SETS.values() for one in await compare(connection, each)]
            if broken:
                more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
                return Finding("schema version", "fault", f"{broken[0]}{more}: run `queen init --repair`")
            return Finding("schema version", "ok", "current, and everything is there")
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return Finding("schema version", "fault", f"{waiting[0]}{more}: run `queen migrate up`")


async def _pooler(url: str, configured: str) -> Finding:
    """Two connections that are answered by one server process share it: a pooler in transaction mode."""
    async with migrate.connect(url) as one, migrate.connect(url) as other:
        pids = [await connection.fetchval(query("doctor/backend")) for connection in (one, other, one)]
    shared = len(set(pids)) == 1
    if shared and configured == "session":
        text = "a transaction-mode pooler stands before PostgreSQL: set QUEEN_POOLER=transaction and QUEEN_LISTEN_URL"
        return Finding("pooler mode", "fault", text)
    return Finding("pooler mode", "ok", "transaction mode, as configured" if shared else "direct connections")


async def _autovacuum(database: Database, _limits: Limits) -> Finding:
    if not (await database.fetchrow(query("doctor/server")))["autovacuum"]:
        return Finding(
            "autovacuum", "fault", "autovacuum is off for the whole server: set autovacuum and track_counts on"
        )
    rows = await database.fetch(query("doctor/neglected_tables"))
    if not rows:
        return Finding("autovacuum", "ok", "on, and keeping up")
    first = rows[0]
    why = "is told to leave it alone" if first["disabled"] else f"does not keep up: {first['dead']:,} dead rows"
    return Finding("autovacuum", "fault", f"{first['name']}: autovacuum {why}")


async def _services(database: Database, _limits: Limits) -> Finding:
    try:
        rows = await database.fetch(query("doctor/late_services"))
    except SchemaOutdated:
        return Finding("services", "unknown", "the schema does not tell yet")
    if not rows:
        return Finding("services", "ok", "none is late")
    late = "; ".join(f"{row['service']} for {row['seconds']:,.0f} s ({row['why']})" for row in rows[:3])
    return Finding("services", "fault", f"no success for three intervals: {late}")


async def _groups(database: Database, limits: Limits) -> Finding:
    try:
        rows = await database.fetch(query("doctor/unused_groups"), limits.max_unused)
    except SchemaOutdated:
        return Finding("unused groups", "unknown", "the schema does not tell yet")
    if not rows:
        return Finding("unused groups", "ok", f"none for {limits.max_unused:g} days")
    first = rows[0]
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    what = f"{first['consumer_group']} on {first['queue_name']} for {first['days']:,.0f} days{more}"
    advice = "delete it, or let groups expire (QUEEN_GROUP_EXPIRY_DAYS)"
    return Finding("unused groups", "fault", f"{what}: holds back retention and limits; {advice}")


async def _oldest_transaction(database: Database, limits: Limits) -> Finding:
    rows = await database.fetch(query("doctor/oldest_transactions"), limits.max_age)
    if not rows:
        return Finding("oldest transaction", "ok", f"none older than {limits.max_age:g} s")
    first = rows[0]
    age = f" for {first['seconds']:,.0f} s" if first["seconds"] is not None else ""
    return Finding("oldest transaction", "fault", f"{first['holder']} ({first['state']}) holds back clean-up{age}")


async def _clock(database: Database, limits: Limits) -> Finding:
    before = datetime.now(UTC)
    try:
        there: datetime = (await database.fetchrow(query("doctor/clock")))["now"]
    except SchemaOutdated:
        there = (await database.fetchrow(query("doctor/server")))["now"]
    after = datetime.now(UTC)
    skew = max((before - there).total_seconds(), (there - after).total_seconds(), 0.0)
    if skew > limits.max_skew:
        return Finding(
            "clock skew", "fault", f"the clocks here and on the server differ by {skew:.1f} s: use NTP on both"
        )
    return Finding("clock skew", "ok", f"below {max(skew, 0.01):.2f} s")


async def _disk(database: Database, limits: Limits) -> Finding:
    path: str | None = (await database.fetchrow(query("doctor/data_directory")))["path"]
    free = None if path is None else await asyncio.to_thread(_free, Path(path))
    if free is None:
        return Finding("disk", "unknown", "the server's disk cannot be seen from here")
    if free < limits.min_free:
        return Finding("disk", "fault", f"{free:,.1f} GiB free, less than {limits.min_free:g}")
    return Finding("disk", "ok", f"{free:,.1f} GiB free")


def _free(path: Path) -> float | None:
    return shutil.disk_usage(path).free / GIBIBYTE if path.exists() else None
