"""`queen migrate`: the schema of a database."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from queen import config
from queen.cli.target import Suggesting, database_address
from queen.cli.transfer import commands
from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.migrate import Entry, MigrationSet


@click.group(cls=Suggesting)
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--database-url", help="PostgreSQL to work on; the embedded one unless given.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the embedded one lives.")
@click.option("--set", "name", type=click.Choice(sorted(migrate.SETS)), help="Only this schema; all unless given.")
@click.pass_context
def command(
    ctx: click.Context, file: Path | None, database_url: str | None, data_dir: Path | None, name: str | None
) -> None:
    """Bring a database to the schema this release needs, or back; or a system of an earlier schema to this one."""
    settings = config.load(file, flags={"database_url": database_url, "data_dir": data_dir})
    ctx.obj = Target(settings, [migrate.SETS[name]] if name else list(migrate.SETS.values()))


class Target:
    """What the commands work on."""

    def __init__(self, settings: config.Settings, sets: list[MigrationSet]) -> None:
        self.settings = settings
        self.sets = sets

    @contextmanager
    def dsn(self) -> Iterator[str]:
        if address := database_address(None, self.settings):
            yield address
            return
        with EmbeddedServer.start(self.settings.data_dir, port=self.settings.embedded_port or None) as server:
            yield server.dsn()


@command.command()
@click.option("--to", type=click.IntRange(min=0), help="Stop after this number.")
@click.pass_obj
def up(target: Target, to: int | None) -> None:
    """Apply what is missing."""

    async def work(dsn: str) -> None:
        async with migrate.connect(dsn) as connection:
            for migrations in target.sets:
                done = await migrate.up(connection, migrations, to=to)
                _report(migrations, done, "applied", "is current")

    with target.dsn() as dsn:
        asyncio.run(work(dsn))


@command.command()
@click.option("--to", type=click.IntRange(min=0), required=True, help="Last number to keep; 0 removes everything.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def down(target: Target, to: int, *, yes: bool) -> None:
    """Take migrations back, newest first. Removes tables and what is in them."""
    names = ", ".join(migrations.schema for migrations in target.sets)
    if not yes:
        click.confirm(f"This removes every migration above {to} of {names}, with its data. Go on?", abort=True)

    async def work(dsn: str) -> None:
        async with migrate.connect(dsn) as connection:
            for migrations in reversed(target.sets):
                done = await migrate.down(connection, migrations, to=to)
                _report(migrations, done, "taken back", "has nothing to take back")

    with target.dsn() as dsn:
        asyncio.run(work(dsn))


@command.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Table on a terminal, else JSON lines.")
@click.option("--check", is_flag=True, help="Fail (exit code 4) unless everything is applied.")
@click.pass_obj
def status(target: Target, output: str | None, *, check: bool) -> None:
    """Show every file and how it stands."""

    async def work(dsn: str) -> list[tuple[MigrationSet, Entry]]:
        async with migrate.connect(dsn) as connection:
            return [(s, entry) for s in target.sets for entry in await migrate.status(connection, s)]

    with target.dsn() as dsn:
        found = asyncio.run(work(dsn))
    as_table = output == "table" or (output is None and sys.stdout.isatty())
    for migrations, entry in found:
        click.echo(_row(migrations, entry) if as_table else _line(migrations, entry))
    if check and any(entry.state != "applied" for _, entry in found):
        raise SystemExit(4)


@command.command()
@click.option("--to", type=click.IntRange(min=0), help="Stop after this number.")
@click.option("--offline", is_flag=True, help="Do not connect; print the whole schema.")
@click.pass_obj
def plan(target: Target, to: int | None, *, offline: bool) -> None:
    """Print the SQL that `up` would run, and run nothing."""

    async def work(dsn: str | None) -> None:
        async with migrate.connect(dsn) if dsn else nullcontext() as connection:
            for migrations in target.sets:
                click.echo(await migrate.plan(connection, migrations, to=to), nl=False)

    with nullcontext() if offline else target.dsn() as dsn:
        asyncio.run(work(dsn))


def _report(migrations: MigrationSet, done: list[str], verb: str, otherwise: str) -> None:
    for name in done:
        click.echo(f"{migrations.schema}: {name} {verb}")
    if not done:
        click.echo(f"{migrations.schema} {otherwise}")


def _row(migrations: MigrationSet, entry: Entry) -> str:
    when = f"{entry.applied_at:%Y-%m-%d %H:%M:%S}Z" if entry.applied_at else ""
    return f"{migrations.schema:14} {entry.kind:10} {entry.state:8} {when:20} {entry.name}"


def _line(migrations: MigrationSet, entry: Entry) -> str:
    when = entry.applied_at.isoformat() if entry.applied_at else None
    fields = {"schema": migrations.schema, "kind": entry.kind, "name": entry.name, "state": entry.state}
    return json.dumps({**fields, "appliedAt": when})


command.add_command(commands("v2"))
command.add_command(commands("v3"))
