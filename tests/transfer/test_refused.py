"""What cannot be moved is refused before anything is changed, with what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.transfer.generator import Sizes, generate
from tests.transfer.places import ask

SMALL = Sizes(queues=1, partitions=2, messages=20, groups=2)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["migrate", *arguments])
    return result.exit_code, result.output


def everything(dsn: str) -> list[tuple[object, ...]]:
    """Every object and how many rows each table has: what a command that changes nothing leaves alone."""
    objects = ask(
        dsn,
        "select n.nspname, c.relname, c.relkind::text, c.relhastriggers from pg_class c join pg_namespace n "
        "on n.oid = c.relnamespace where n.nspname !~ '^(pg_|information_schema)' order by 1, 2",
    )
    counts = [ask(dsn, f'select count(*) from "{row[0]}"."{row[1]}"') for row in objects if row[2] == "r"]
    return [*objects, *(count[0] for count in counts)]


@pytest.fixture
def unchanged(empty_database: str) -> Iterator[Callable[[], None]]:
    """Call it when the database is ready; what is there then must be there at the end."""
    before: list[list[tuple[object, ...]]] = []
    yield lambda: before.append(everything(empty_database))
    assert everything(empty_database) == before[0]


def refuse_all(source: str, word: str, said: str, *, target: str | None = None) -> None:
    for command in ("plan", "copy"):
        extra = ["--target", target] if target else []
        code, output = run(word, "--source", source, *extra, command)
        assert code == 4, output
        assert said in output


def test_a_database_without_queues(empty_database: str, unchanged: Callable[[], None]) -> None:
    unchanged()
    refuse_all(empty_database, "from-v3", "the source has no schema queen: is this the right database?")


def test_some_other_schema_queen(empty_database: str, unchanged: Callable[[], None]) -> None:
    ask(empty_database, "create schema queen")
    ask(empty_database, "create table queen.messages (id integer)")
    unchanged()
    refuse_all(empty_database, "from-v2", "the source is not a v2 database: it lacks queues.id, queues.name")


def test_the_wrong_word(empty_database: str, unchanged: Callable[[], None]) -> None:
    asyncio.run(generate(empty_database, "v2", SMALL))
    unchanged()
    refuse_all(empty_database, "from-v3", "the source is a v2 database: use `queen migrate from-v2`")


def test_this_generation(database: str) -> None:
    before = everything(database)
    refuse_all(database, "from-v2", "its schema queen was made by this generation of Queen")
    later = "values ('migration', '9999_later', '')"
    ask(database, f"insert into queen.schema_migrations (kind, name, checksum) {later}")
    refuse_all(database, "from-v3", "`queen migrate status` shows its version")
    assert everything(database)[: len(before) // 2] == before[: len(before) // 2]


def test_a_role_without_rights(empty_database: str, unchanged: Callable[[], None]) -> None:
    asyncio.run(generate(empty_database, "v3", SMALL))
    role = f"reader_{uuid4().hex[:8]}"
    ask(empty_database, f"create role {role} login password 'reader'")
    try:
        ask(empty_database, f"grant usage on schema queen to {role}")
        ask(empty_database, f"grant select on queen.messages to {role}")
        unchanged()
        source = urlunsplit(urlsplit(empty_database)._replace(netloc=f"{role}@"))
        refuse_all(source, "from-v3", "the role lacks rights: CREATE on the database")
        refuse_all(source, "from-v3", "ownership of the schema queen")
    finally:
        ask(empty_database, f"drop owned by {role}")
        ask(empty_database, f"drop role {role}")


def test_a_full_disk(empty_database: str, unchanged: Callable[[], None]) -> None:
    asyncio.run(generate(empty_database, "v3", SMALL))
    unchanged()
    for command in ("plan", "copy"):
        code, output = run("from-v3", "--source", empty_database, command, "--target-free", "0")
        assert (code, "MiB on the target, and 0 MiB are free: make room first" in output) == (4, True), output


def test_a_target_in_use(database: str, empty_database: str, unchanged: Callable[[], None]) -> None:
    asyncio.run(generate(empty_database, "v3", SMALL))
    unchanged()
    refuse_all(empty_database, "from-v3", "the target already has a schema queen", target=database)


def test_names_that_do_not_fit(empty_database: str, unchanged: Callable[[], None]) -> None:
    asyncio.run(generate(empty_database, "v3", SMALL))
    ask(empty_database, "alter table queen.partitions alter column name type text")
    ask(empty_database, "update queen.partitions set name = repeat('long', 200) where name = 'Default'")
    unchanged()
    refuse_all(empty_database, "from-v3", "longer than 512 bytes. Rename or remove them first")


def test_commands_out_of_turn(empty_database: str, unchanged: Callable[[], None]) -> None:
    asyncio.run(generate(empty_database, "v2", SMALL))
    unchanged()
    at = ("from-v2", "--source", empty_database)
    for command in (["follow"], ["verify"], ["cutover"], ["rollback", "--yes"], ["cleanup", "--yes"]):
        code, output = run(*at, *command)
        assert code == 4, output
        assert "nothing has been copied yet" in output or "no transfer was begun" in output


def test_a_plan_says_what_is_odd(empty_database: str, unchanged: Callable[[], None]) -> None:
    code, output = run("from-v2", "--source", empty_database, "generate", "--messages", "2000")
    assert code == 0, output
    unchanged()
    code, output = run("from-v2", "--source", empty_database, "plan")
    assert code == 0, output
    assert "transaction id is used before in the partition: the first keeps it" in output
    assert "unfinished by their status, yet not after the cursor: delivered" in output
    assert "dead letters whose message is gone: carried without a payload" in output
