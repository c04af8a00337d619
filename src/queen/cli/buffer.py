"""`queen buffer`: what waits in the disk buffer of a broker on this machine, and what was set aside."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
import msgspec

from queen import config
from queen.cli.output import Output
from queen.cli.target import Suggesting, confirm
from queen.engine.encryption import KeyRing
from queen.errors import MessageNotFound, QueenError
from queen.model import NewMessage
from queen.server.buffer import Buffer
from queen.server.buffer.aside import Aside, Entry

T = TypeVar("T")
P = ParamSpec("P")
_ITEMS = msgspec.json.Decoder(list[NewMessage])


class Place(Output):
    """A buffer directory, and how results are shown."""

    def __init__(self, settings: config.Settings, shape: str | None) -> None:
        super().__init__(shape)
        self.directory = settings.buffer_path
        self.keys = KeyRing(settings.encryption_keys)
        self.aside = Aside(self.directory)

    def find(self, name: str) -> tuple[Entry, bytes]:
        """An entry and its bytes, or an error."""
        found = self.aside.read(name)
        if found is None:
            raise MessageNotFound(f"nothing was set aside as {name!r} in {self.directory}")
        return found

    def messages(self, entry: Entry, data: bytes) -> list[NewMessage]:
        """The messages of an entry that was refused."""
        return _ITEMS.decode(self.keys.open(data.decode()) if entry.sealed else data)


def placed(command: Callable[Concatenate[Place, P], T]) -> Callable[P, T]:
    """Give a command its directory, and the options that choose it."""

    @click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
    @click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Data directory of the broker.")
    @click.option("--buffer-dir", type=click.Path(file_okay=False, path_type=Path), help="The buffer's own directory.")
    @click.option(
        "-o", "--output", "shape", type=click.Choice(["table", "json"]), help="Table on a terminal, else JSON."
    )
    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> T:
        file, shape = options.pop("file"), options.pop("shape")
        flags = {name: options.pop(name) for name in ("data_dir", "buffer_dir")}
        return command(Place(config.load(file, flags=flags), shape), *args, **options)

    return run


@click.group(cls=Suggesting)
def command() -> None:
    """The disk buffer of a broker on this machine: what waits, and what was set aside.

    Works on the files, so the broker may run or not.
    """


@command.command()
@placed
def ls(place: Place, /) -> None:
    """List what was set aside, and why."""
    place.rows([_shown(entry) for entry in place.aside.entries()])


@command.command()
@placed
def status(place: Place, /) -> None:
    """Show what waits, how much room it takes and since when."""
    if not place.directory.is_dir():
        raise MessageNotFound(f"there is no disk buffer in {place.directory}")
    place.one(msgspec.structs.asdict(Buffer(place.directory, place.keys, _refuse).stats))


@command.command()
@click.argument("entry")
@placed
def show(place: Place, /, entry: str) -> None:
    """Show one entry: its messages, or the start of its damaged bytes."""
    found, data = place.find(entry)
    shown = _shown(found)
    if found.kind == "refused":
        shown["items"] = msgspec.to_builtins(place.messages(found, data))
    else:
        shown["start"] = data[:4096].decode("utf-8", "backslashreplace")
    place.one(shown)


@command.command()
@click.argument("entries", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every entry that was refused.")
@placed
def retry(place: Place, /, entries: tuple[str, ...], *, everything: bool) -> None:
    """Put refused pushes back into the buffer, behind what waits there: they are stored with it."""
    names = entries or tuple(one.id for one in place.aside.entries() if everything and one.kind == "refused")
    if not names:
        raise click.UsageError("name entries, or say --all")
    place.one({"retried": asyncio.run(_retry(place, names))})


@command.command()
@click.argument("entries", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@placed
def drop(place: Place, /, entries: tuple[str, ...], *, yes: bool) -> None:
    """Delete entries for good."""
    found = [place.find(name)[0] for name in entries]
    confirm(f"{len(found)} entries are deleted for good.", yes=yes)
    for entry in found:
        place.aside.remove(entry)
    place.one({"dropped": len(found)})


async def _retry(place: Place, names: tuple[str, ...]) -> int:
    buffer = Buffer(place.directory, place.keys, _refuse)
    try:
        for name in names:
            entry, data = place.find(name)
            if entry.kind != "refused":
                raise QueenError(f"{name} is {entry.kind}: there is no whole record in it to try again")
            await buffer.append(place.messages(entry, data))
            place.aside.remove(entry)
    finally:
        await buffer.close()
    return len(names)


async def _refuse(_: object) -> None:
    raise AssertionError("this command stores nothing")


def _shown(entry: Entry) -> dict[str, Any]:
    names = ("id", "kind", "reason", "queues", "messages", "seq", "lost", "bytes", "file", "offset", "at")
    return {name: getattr(entry, name) for name in names}
