"""What a command talks to: a broker, a database, or the embedded server; and how it shows what it found."""

from __future__ import annotations

import asyncio
import functools
import getpass
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from queen import config
from queen.cli.output import Output
from queen.client.client import Client
from queen.client.connect import connect
from queen.client.direct import DirectTransport
from queen.db.pool import Database
from queen.engine.audit import Noted, note
from queen.errors import QueenError, QueueNotFound, SchemaOutdated

T = TypeVar("T")
P = ParamSpec("P")


class Target(Output):
    """Where a command works, and how it shows results."""

    def __init__(self, url: str | None, file: Path | None, data_dir: Path | None, shape: str | None) -> None:
        super().__init__(shape)
        self.settings = config.load(file, flags={"data_dir": data_dir})
        self.url = url or self.settings.database_url

    def client(self) -> Client:
        """A client, not yet open."""
        return connect(
            self.url,
            encryption_keys=self.settings.encryption_keys,
            pooler=self.settings.pooler,
            listen_url=self.settings.listen_url,
            data_dir=self.settings.data_dir,
        )

    async def require_queue(self, client: Client, queue: str | None) -> None:
        """Refuse a queue that is not there, with the name that may have been meant; None is no queue in particular."""
        if queue is None:
            return
        names = [one.name for one in await client.queues.list()]
        if queue not in names:
            raise QueueNotFound(f"there is no queue {queue!r}{did_you_mean(queue, names)}")

    async def note(self, client: Client, act: str, text: str, **facts: Any) -> None:
        """Write an act into the audit log; a broker does that itself for what it is asked to do."""
        if isinstance(client.transport, DirectTransport):
            await note_act(client.transport.engine.database, act, text, **facts)

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something with an open client."""

        async def main() -> T:
            async with self.client() as client:
                return await work(client)

        return asyncio.run(main())


async def note_act(
    database: Database, act: str, text: str, *, queue: str | None = None, target: str | None = None, **detail: Any
) -> None:
    """Write what somebody did at this terminal into the audit log; that is done, so a failure here is only told."""
    noted = Noted(act=act, text=f"{text} (CLI)", queue=queue, target=target, detail=detail)
    try:
        await note(database, operator(), noted)
    except SchemaOutdated:
        return  # a store of workflows alone has no such log
    except QueenError as error:
        click.echo(f"queen: done, but not in the audit log: {error}", err=True)


def operator() -> str:
    """Who sits at this terminal."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a container may know no name for its user
        return f"{os.getuid()}@{socket.gethostname()}"


def targeted(command: Callable[Concatenate[Target, P], T]) -> Callable[P, T]:
    """Give a command its target, and the options that choose it."""

    @click.option("--url", envvar="QUEEN_URL", help="Broker (http://...) or database (postgresql://...).")
    @click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
    @click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the embedded one lives.")
    @click.option(
        "-o", "--output", "shape", type=click.Choice(["table", "json"]), help="Table on a terminal, else JSON."
    )
    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> T:
        chosen = [options.pop(name) for name in ("url", "file", "data_dir", "shape")]
        return command(Target(*chosen), *args, **options)

    return run


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The name that may have been meant, as the end of a sentence."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Suggesting(click.Group):
    """A group of commands that knows what a typo may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0] if args else "", self.list_commands(ctx))
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None


def database_address(given: str | None, settings: config.Settings) -> str | None:
    """The database of a command that works on nothing else: given, configured, or QUEEN_URL; None: the embedded one."""
    address = given or settings.database_url or os.environ.get("QUEEN_URL")
    if address and not address.startswith(("postgresql://", "postgres://")):
        raise click.UsageError(
            f"this command works on the database itself, and {address} is none: give it postgresql://..., "
            "by option or as QUEEN_DATABASE_URL"
        )
    return address


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone; `--yes` answers for scripts. Refused: exit code 4."""
    if yes:
        return
    try:
        agreed = click.confirm(f"{question} Go on?", err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        click.echo("queen: nothing was done", err=True)
        raise SystemExit(4)
