"""Compare a schema with what should be there, and put back what can be.

What holds no data (functions, views, indexes) is made again from our files. A table or a sequence that is gone took
data with it: that is told and left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from queen.db import migrate
from queen.db.migration_set import MigrationError, MigrationSet
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.migrate import Connection

_BODY: Final = re.compile(r"\$\$(.*?)\$\$", re.DOTALL)
_STATEMENT: Final = re.compile(
    r"^(?P<verb>create|drop) (?:unique )?(?P<kind>table|index|view|sequence)(?: if (?:not )?exists)? "
    r"(?:\w+\.)?(?P<name>\w+).*?;\s*$",
    re.DOTALL | re.MULTILINE,
)
_WITHOUT_DATA: Final = ("index", "view")


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as it should be. `file` is the function file that makes it, if one does."""

    schema: str
    kind: str
    name: str
    state: Literal["missing", "altered"]
    file: str | None = None
    statement: str | None = None

    @property
    def repairable(self) -> bool:
        """Whether it can be made again without losing anything."""
        return self.file is not None or self.statement is not None

    def __str__(self) -> str:
        return f"{self.kind} {self.schema}.{self.name} is {self.state}"


async def compare(connection: Connection, migrations: MigrationSet) -> list[Difference]:
    """What is missing or altered in a schema that is migrated as far as our files go."""
    return [*await _functions(connection, migrations), *await _relations(connection, migrations)]


async def _functions(connection: Connection, migrations: MigrationSet) -> list[Difference]:
    made = await migrate.objects_of(connection, migrations)
    rows = await connection.fetch(query("doctor/functions"), migrations.schema)
    bodies: Mapping[str, str] = {row["object"]: row["body"] for row in rows}
    found: list[Difference] = []
    for script in migrations.functions:
        known = {text.strip() for text in _BODY.findall(script.text)}
        for thing in sorted(made.get(script.name, ())):
            if not thing.startswith("function "):
                continue
            name = thing.removeprefix(f"function {migrations.schema}.").replace("pg_catalog.", "")
            if thing not in bodies:
                found.append(Difference(migrations.schema, "function", name, "missing", script.name))
            elif known and bodies[thing].strip() not in known:
                found.append(Difference(migrations.schema, "function", name, "altered", script.name))
    return found


async def _relations(connection: Connection, migrations: MigrationSet) -> list[Difference]:
    expected: dict[tuple[str, str], str] = {}
    for script in migrations.migrations:
        for statement in _STATEMENT.finditer(script.text):
            key = statement["kind"], statement["name"]
            if " partition of " in statement[0]:  # slices come and go
                continue
            if statement["verb"] == "create":
                expected[key] = statement[0]
            elif statement["kind"] == "table":
                expected = {other: text for other, text in expected.items() if not _belongs(other, text, key[1])}
            else:
                expected.pop(key, None)
    rows = await connection.fetch(query("doctor/relations"), migrations.schema)
    present = {(row["kind"], row["name"]) for row in rows}
    return [
        Difference(migrations.schema, kind, name, "missing", statement=text if kind in _WITHOUT_DATA else None)
        for (kind, name), text in expected.items()
        if (kind, name) not in present
    ]


def _belongs(relation: tuple[str, str], text: str, table: str) -> bool:
    """Whether it goes when a table is dropped."""
    kind, name = relation
    return name == table or (kind == "index" and re.search(rf"\bon (?:\w+\.)?{table}\b", text) is not None)


async def repair(connection: Connection, migrations: MigrationSet) -> list[Difference]:
    """Put back what is missing or altered, all or nothing; MigrationError when something cannot be."""
    async with connection.transaction():
        found = await compare(connection, migrations)
        lost = [one for one in found if not one.repairable]
        if lost:
            raise MigrationError(
                f"{lost[0]}, and its data with it: restore a backup, or start anew with `queen init --reset`"
            )
        await migrate.forget_functions(connection, migrations, sorted({one.file for one in found if one.file}))
        for one in found:
            if one.statement is not None:
                await connection.execute(one.statement)
        await migrate.up(connection, migrations)
    return found
