"""Migrations as files: numbered scripts that change tables, and functions that are replaced as a whole.

migrations/0001_name.up.sql, migrations/0001_name.down.sql      run once, in order
functions/**/*.sql                                              run again whenever their text changes
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

NUMBERED = re.compile(r"(?P<version>\d{4})_(?P<slug>[a-z0-9_]+)\.(?P<direction>up|down)\.sql")


class MigrationError(RuntimeError):
    """A database cannot be migrated; the message says which file is concerned and what to do."""


@dataclass(frozen=True, slots=True)
class Script:
    """One file to apply; numbered ones carry a version and a way back."""

    kind: Literal["migration", "function"]
    name: str
    text: str
    version: int = 0
    down: str = ""

    @property
    def checksum(self) -> str:
        """A fingerprint of the text that does not depend on the line endings of a checkout."""
        return hashlib.sha256(self.text.replace("\r\n", "\n").encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class MigrationSet:
    """All scripts of one schema."""

    name: str
    schema: str
    root: Traversable

    @property
    def migrations(self) -> list[Script]:
        """The numbered scripts in order, each checked to have a way back and a number of its own."""
        texts: dict[tuple[int, str], dict[str, str]] = {}
        for path, file in _walk(self.root.joinpath("migrations")):
            match = NUMBERED.fullmatch(path)
            if match is None:
                raise MigrationError(
                    f"migrations/{path}: the name must look like 0001_name.up.sql or 0001_name.down.sql"
                )
            key = int(match["version"]), f"{match['version']}_{match['slug']}"
            texts.setdefault(key, {})[match["direction"]] = file.read_text(encoding="utf-8")
        for position, (version, name) in enumerate(sorted(texts), start=1):
            if version != position:
                raise MigrationError(f"migrations/{name}: the number should be {position:04}, numbers have no gaps")
        for (_, name), text in texts.items():
            if missing := {"up", "down"} - text.keys():
                raise MigrationError(f"migrations/{name}: the file {name}.{missing.pop()}.sql is missing")
        return [
            Script("migration", name, text["up"], version, text["down"])
            for (version, name), text in sorted(texts.items())
        ]

    @property
    def functions(self) -> list[Script]:
        """The replaceable scripts, sorted by path."""
        found = sorted(_walk(self.root.joinpath("functions")), key=lambda entry: entry[0])
        return [Script("function", path, file.read_text(encoding="utf-8")) for path, file in found]


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".sql"):
            yield f"{prefix}{entry.name}", entry


QUEEN = MigrationSet("queen", "queen", files("queen.sql"))
DURABLE = MigrationSet("durable", "queen_durable", files("queen.sql").joinpath("durable"))
SETS = {QUEEN.name: QUEEN, DURABLE.name: DURABLE}
