"""Bring a database to the schema this release needs, or back.

Each call is one transaction under an advisory lock: it happens completely or not at all, and two
processes that migrate at the same time do it one after the other. Nothing outlives the transaction,
so it also works through a transaction-mode pooler.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import asyncpg

from queen.db.migration_set import DURABLE, QUEEN, SETS, MigrationError, MigrationSet, Script
from queen.sql import query

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

__all__ = [
    "DURABLE", "QUEEN", "SETS", "Entry", "MigrationError", "MigrationSet",
    "connect", "down", "forget_functions", "is_current", "make_roles", "objects_of", "plan", "status", "up",
]  # fmt: skip

State = Literal["applied", "pending", "changed", "edited", "unknown"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file and how it stands.

    `applied`: in the database as it is here. `pending`: not there yet. `changed`: a function whose
    new text waits for the next `up`. `edited`: a migration whose text was changed after it ran.
    `unknown`: in the database, but not among our files.
    """

    kind: Literal["migration", "function"]
    name: str
    state: State
    applied_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What the database remembers about one file."""

    checksum: str
    objects: frozenset[str]
    applied_at: datetime


Memory = dict[tuple[str, str], Applied]


class TurnedAway(ConnectionError):
    """A wrong password or user, a user who may not connect, or no such database: waiting will not help."""


@asynccontextmanager
async def connect(dsn: str, *, timeout: float = 30) -> AsyncIterator[Connection]:
    """Open a connection of its own, fit for a pooler too, for the length of a block."""
    try:
        connection = await asyncpg.connect(dsn, timeout=timeout, statement_cache_size=0)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise TurnedAway(f"PostgreSQL does not let us in: {error}") from error
    except (OSError, asyncpg.PostgresError) as error:
        raise ConnectionError(f"cannot connect to PostgreSQL: {str(error) or 'no answer in time'}") from error
    try:
        yield connection
    finally:
        await connection.close()


async def up(
    connection: Connection, migrations: MigrationSet = QUEEN, *, to: int | None = None, timeout: float = 60
) -> list[str]:
    """Apply what is missing, up to and including number `to`, and say which files were applied.

    Functions are replaced only when the last migration is reached, since they are written for it.
    """
    if not migrations.migrations and not migrations.functions:
        return []
    async with _transaction(connection, migrations, timeout):
        await connection.execute(query("migrate/bootstrap"))
        memory = await _remembered(connection)
        _require_known(migrations, memory)
        pending = _pending(migrations, memory, to)
        for script in pending:
            await _apply(connection, migrations, script.text)
            await connection.execute(query("migrate/record"), script.kind, script.name, script.checksum, [])
        replaced: list[str] = []
        if _reaches_end(migrations, to):
            replaced = await _replace_functions(connection, migrations, memory)
        if pending or replaced:
            await connection.execute(query("migrate/close"))
        return [script.name for script in pending] + replaced


async def down(connection: Connection, migrations: MigrationSet = QUEEN, *, to: int, timeout: float = 60) -> list[str]:
    """Take back every migration above number `to`, newest first; 0 leaves nothing behind."""
    async with _transaction(connection, migrations, timeout):
        if not await connection.fetchval(query("migrate/exists")):
            return []
        memory = await _remembered(connection)
        _require_known(migrations, memory)
        undone = [s for s in reversed(migrations.migrations) if s.version > to and (s.kind, s.name) in memory]
        if not undone and to > 0:
            return []
        functions = [name for kind, name in memory if kind == "function"]
        await _drop(connection, _objects(memory, functions))
        await connection.execute(query("migrate/forget"), "function", functions)
        for script in undone:
            await connection.execute(query("migrate/forget"), script.kind, [script.name])
            await _apply(connection, migrations, script.down)
        if to <= 0:
            await connection.execute(query("migrate/remove"))
        return [script.name for script in undone]


async def make_roles(connection: Connection, *, timeout: float = 60) -> None:
    """Make queen_producer, queen_consumer, queen_observer and queen_admin; later migrations keep their rights."""
    async with _transaction(connection, QUEEN, timeout):
        await connection.execute(query("migrate/roles"))


async def status(connection: Connection, migrations: MigrationSet = QUEEN) -> list[Entry]:
    """How every file stands, migrations first."""
    async with connection.transaction(readonly=True):
        await connection.execute(query("migrate/search_path"), migrations.schema)
        memory = await _remembered(connection) if await connection.fetchval(query("migrate/exists")) else {}
        await connection.execute(query("migrate/search_path"), "")
    return _compare(migrations, memory)


async def objects_of(connection: Connection, migrations: MigrationSet) -> dict[str, frozenset[str]]:
    """What each function file made when it was applied."""
    async with connection.transaction():
        await connection.execute(query("migrate/search_path"), migrations.schema)
        memory = await _remembered(connection) if await connection.fetchval(query("migrate/exists")) else {}
        await connection.execute(query("migrate/search_path"), "")
    return {name: applied.objects for (kind, name), applied in memory.items() if kind == "function"}


async def forget_functions(connection: Connection, migrations: MigrationSet, names: Iterable[str]) -> None:
    """Have the next `up` make these files again."""
    async with _transaction(connection, migrations, 60):
        await connection.execute(query("migrate/forget"), "function", list(names))


async def is_current(connection: Connection, migrations: MigrationSet = QUEEN) -> bool:
    """Tell whether the database is exactly what this release needs."""
    return all(entry.state == "applied" for entry in await status(connection, migrations))


async def plan(connection: Connection | None = None, migrations: MigrationSet = QUEEN, *, to: int | None = None) -> str:
    """The SQL that `up` would run. Without a connection: for a database with nothing in it."""
    memory: Memory = {}
    if connection is not None:
        async with connection.transaction(readonly=True):
            await connection.execute(query("migrate/search_path"), migrations.schema)
            if await connection.fetchval(query("migrate/exists")):
                memory = await _remembered(connection)
        _require_known(migrations, memory)
    scripts = _pending(migrations, memory, to)
    if _reaches_end(migrations, to):
        scripts += _outdated(migrations, memory)
    parts = [f"-- {migrations.schema}: {script.kind} {script.name}\n{script.text.strip()}\n" for script in scripts]
    return "\n".join(parts)


@asynccontextmanager
async def _transaction(connection: Connection, migrations: MigrationSet, timeout: float) -> AsyncIterator[None]:
    async with connection.transaction(isolation="read_committed"):
        try:
            await connection.execute(query("migrate/lock"), migrations.schema, str(round(timeout * 1000)))
        except asyncpg.LockNotAvailableError as error:
            raise MigrationError(
                f"another process has been migrating the schema {migrations.schema} for {timeout:g} s: try again later"
            ) from error
        await connection.execute(query("migrate/check_bodies_off"))
        await connection.execute(query("migrate/search_path"), migrations.schema)
        yield


async def _remembered(connection: Connection) -> Memory:
    rows = await connection.fetch(query("migrate/applied"))
    return {
        (row["kind"], row["name"]): Applied(row["checksum"], frozenset(row["objects"]), row["applied_at"])
        for row in rows
    }


async def _apply(connection: Connection, migrations: MigrationSet, text: str) -> None:
    """Run a script with an empty search path, so that a name without its schema fails at once."""
    await connection.execute(query("migrate/search_path"), "")
    await connection.execute(text)
    await connection.execute(query("migrate/search_path"), migrations.schema)


async def _replace_functions(connection: Connection, migrations: MigrationSet, memory: Memory) -> list[str]:
    outdated = _outdated(migrations, memory)
    kept = {script.name for script in migrations.functions}
    removed = [name for kind, name in memory if kind == "function" and name not in kept]
    former = _objects(memory, [*removed, *(script.name for script in outdated)])
    present = _objects(memory, kept - {script.name for script in outdated})
    waiting = outdated
    while waiting:
        early: list[Script] = []
        for script in waiting:
            made = await _replace(connection, migrations, script, former - present, last=len(early) == len(waiting) - 1)
            if made is None:
                early.append(script)
                continue
            present |= made
            await connection.execute(query("migrate/record"), script.kind, script.name, script.checksum, sorted(made))
        waiting = early
    await _drop(connection, former - present)
    await connection.execute(query("migrate/forget"), "function", removed)
    return [script.name for script in outdated] + removed


async def _replace(
    connection: Connection, migrations: MigrationSet, script: Script, former: frozenset[str], *, last: bool
) -> frozenset[str] | None:
    """Run a function file and find out what it made; None if it needs one that comes later.

    PostgreSQL refuses to replace a function whose result type changed: then the old one goes first.
    """
    before = await _present(connection, migrations)
    try:
        async with connection.transaction():
            await _apply(connection, migrations, script.text)
    except (asyncpg.UndefinedFunctionError, asyncpg.UndefinedTableError, asyncpg.UndefinedObjectError):
        if last:
            raise
        return None
    except (asyncpg.InvalidFunctionDefinitionError, asyncpg.InvalidTableDefinitionError):
        if not former:
            raise
        await _drop(connection, former)
        await _apply(connection, migrations, script.text)
    after = await _present(connection, migrations)
    return frozenset(name for name, _ in after - before)


async def _present(connection: Connection, migrations: MigrationSet) -> set[tuple[str, str]]:
    rows = await connection.fetch(query("migrate/objects"), migrations.schema)
    return {(row["object"], row["stamp"]) for row in rows}


async def _drop(connection: Connection, objects: frozenset[str]) -> None:
    if objects:
        await connection.execute(query("migrate/obsolete"), sorted(objects))
        await connection.execute(query("migrate/drop_objects"))


def _objects(memory: Memory, functions: Iterable[str]) -> frozenset[str]:
    return frozenset(
        entry for name in functions if ("function", name) in memory for entry in memory["function", name].objects
    )


def _pending(migrations: MigrationSet, memory: Memory, to: int | None) -> list[Script]:
    limit = len(migrations.migrations) if to is None else to
    return [s for s in migrations.migrations if s.version <= limit and (s.kind, s.name) not in memory]


def _outdated(migrations: MigrationSet, memory: Memory) -> list[Script]:
    return [
        s
        for s in migrations.functions
        if (s.kind, s.name) not in memory or memory[s.kind, s.name].checksum != s.checksum
    ]


def _reaches_end(migrations: MigrationSet, to: int | None) -> bool:
    return to is None or to >= len(migrations.migrations)


def _compare(migrations: MigrationSet, memory: Memory) -> list[Entry]:
    entries: list[Entry] = []
    for script in [*migrations.migrations, *migrations.functions]:
        known = memory.get((script.kind, script.name))
        if known is None:
            entries.append(Entry(script.kind, script.name, "pending"))
        elif known.checksum == script.checksum:
            entries.append(Entry(script.kind, script.name, "applied", known.applied_at))
        else:
            state: State = "edited" if script.kind == "migration" else "changed"
            entries.append(Entry(script.kind, script.name, state, known.applied_at))
    ours = {(entry.kind, entry.name) for entry in entries}
    unknown = [(key, known) for key, known in memory.items() if key not in ours]
    return entries + [
        Entry("migration" if kind == "migration" else "function", name, "unknown", known.applied_at)
        for (kind, name), known in unknown
    ]


def _require_known(migrations: MigrationSet, memory: Memory) -> None:
    for entry in _compare(migrations, memory):
        if entry.kind == "migration" and entry.state == "edited":
            raise MigrationError(
                f"migrations/{entry.name}.up.sql was changed after it ran on this database: "
                "put the old text back and write a new migration"
            )
        if entry.kind == "migration" and entry.state == "unknown":
            raise MigrationError(
                f"the database has the migration {entry.name}, which this release does not know: "
                "use the release that made it, or a newer one"
            )
