from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from queen.db import migrate
from queen.db.migrate import Entry, MigrationError, MigrationSet
from tests.support.schema import describe


class Tree:
    """A set of migrations on disk that a test can change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.set = MigrationSet("pets", "pets", root)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def migration(self, name: str, up: str, down: str) -> None:
        self.write(f"migrations/{name}.up.sql", up)
        self.write(f"migrations/{name}.down.sql", down)

    def function(self, path: str, name: str, result: str = "int", body: str = "select 1") -> None:
        self.write(
            f"functions/{path}",
            f"create or replace function pets.{name} returns {result} language sql as '{body}'",
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.migration("0001_cats", "create table pets.cats (id int primary key)", "drop table pets.cats")
    tree.migration(
        "0002_dogs", "create table pets.dogs (id int); create index on pets.dogs (id)", "drop table pets.dogs"
    )
    tree.function("count.sql", "count_pets()", body="select count(*)::int from pets.cats")
    return tree


@pytest.fixture
async def connection(empty_database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(empty_database)
    yield connection
    await connection.close()


async def functions(connection: asyncpg.Connection[asyncpg.Record]) -> set[str]:
    rows = await connection.fetch(
        "select oid::regprocedure::text as name from pg_proc where pronamespace = to_regnamespace('pets')"
    )
    return {row["name"] for row in rows}


async def states(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> dict[str, str]:
    return {entry.name: entry.state for entry in await migrate.status(connection, tree.set)}


async def test_up_applies_everything_once(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    assert await migrate.up(connection, tree.set) == ["0001_cats", "0002_dogs", "count.sql"]
    assert await migrate.up(connection, tree.set) == []
    assert await connection.fetchval("select pets.count_pets()") == 0
    assert await states(connection, tree) == {
        "0001_cats": "applied",
        "0002_dogs": "applied",
        "count.sql": "applied",
    }


async def test_up_leaves_the_session_as_it_was(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    names = ("search_path", "check_function_bodies", "lock_timeout")
    before = [await connection.fetchval("select current_setting($1)", name) for name in names]
    await migrate.up(connection, tree.set)
    await migrate.status(connection, tree.set)
    assert [await connection.fetchval("select current_setting($1)", name) for name in names] == before


async def test_up_to_a_number_stops_there_and_leaves_functions_out(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    assert await migrate.up(connection, tree.set, to=1) == ["0001_cats"]
    assert await functions(connection) == set()
    assert not await migrate.is_current(connection, tree.set)
    assert await migrate.up(connection, tree.set) == ["0002_dogs", "count.sql"]
    assert await migrate.is_current(connection, tree.set)


async def test_nothing_remains_of_a_run_that_fails(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    tree.migration("0003_bad", "create table pets.birds (id int); select 1 / 0", "drop table pets.birds")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate.up(connection, tree.set)
    assert await connection.fetchval("select to_regnamespace('pets')") is None


async def test_a_name_without_its_schema_is_refused(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    tree.migration("0003_birds", "create table birds (id int)", "drop table birds")
    with pytest.raises(asyncpg.InvalidSchemaNameError, match="no schema has been selected"):
        await migrate.up(connection, tree.set)


async def test_a_set_with_no_files_changes_nothing(
    connection: asyncpg.Connection[asyncpg.Record], tmp_path: Path
) -> None:
    empty = MigrationSet("pets", "pets", tmp_path / "nothing")
    assert await migrate.up(connection, empty) == []
    assert await connection.fetchval("select to_regnamespace('pets')") is None
    assert await migrate.is_current(connection, empty)


async def test_an_edited_migration_is_refused(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    await migrate.up(connection, tree.set)
    tree.write("migrations/0001_cats.up.sql", "create table pets.cats (id bigint)")
    assert (await states(connection, tree))["0001_cats"] == "edited"
    for verb in (migrate.up(connection, tree.set), migrate.down(connection, tree.set, to=0)):
        with pytest.raises(MigrationError, match=r"0001_cats\.up\.sql was changed after it ran"):
            await verb


async def test_line_endings_of_a_checkout_are_no_edit(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    tree.write("migrations/0001_cats.up.sql", "create table pets.cats (\n  id int\n)")
    await migrate.up(connection, tree.set)
    (tree.root / "migrations/0001_cats.up.sql").write_bytes(b"create table pets.cats (\r\n  id int\r\n)")
    assert await migrate.is_current(connection, tree.set)


async def test_a_database_of_a_newer_release_is_refused(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    await migrate.up(connection, tree.set)
    for direction in ("up", "down"):
        (tree.root / f"migrations/0002_dogs.{direction}.sql").unlink()
    assert Entry("migration", "0002_dogs", "unknown").state == (await states(connection, tree))["0002_dogs"]
    with pytest.raises(MigrationError, match="0002_dogs, which this release does not know"):
        await migrate.up(connection, tree.set)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("migrations/0003_birds.up.sql", r"0003_birds\.down\.sql is missing"),
        ("migrations/0004_birds.up.sql", "the number should be 0003"),
        ("migrations/0002_birds.up.sql", "the number should be"),
        ("migrations/birds.sql", r"must look like 0001_name\.up\.sql"),
    ],
)
def test_a_badly_named_migration_is_refused(tree: Tree, path: str, message: str) -> None:
    tree.write(path, "select 1")
    with pytest.raises(MigrationError, match=message):
        _ = tree.set.migrations


async def test_a_changed_function_is_replaced(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    await migrate.up(connection, tree.set)
    tree.function("count.sql", "count_pets()", body="select 42")
    assert (await states(connection, tree))["count.sql"] == "changed"
    assert await migrate.up(connection, tree.set) == ["count.sql"]
    assert await connection.fetchval("select pets.count_pets()") == 42


async def test_a_function_with_new_arguments_leaves_no_old_one(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    await migrate.up(connection, tree.set)
    tree.function("count.sql", "count_pets(kind text)")
    await migrate.up(connection, tree.set)
    assert await functions(connection) == {"pets.count_pets(text)"}


async def test_a_function_with_a_new_result_replaces_the_old_one(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    await migrate.up(connection, tree.set)
    tree.function("count.sql", "count_pets()", result="text", body="select $q$many$q$")
    await migrate.up(connection, tree.set)
    assert await connection.fetchval("select pets.count_pets()") == "many"


async def test_a_removed_function_is_dropped_and_a_moved_one_stays(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    tree.function("more/old.sql", "old_one()")
    await migrate.up(connection, tree.set)
    assert await functions(connection) == {"pets.count_pets()", "pets.old_one()"}
    (tree.root / "functions/more/old.sql").unlink()
    (tree.root / "functions/count.sql").rename(tree.root / "functions/more/tally.sql")
    assert set(await migrate.up(connection, tree.set)) == {"more/tally.sql", "count.sql", "more/old.sql"}
    assert await functions(connection) == {"pets.count_pets()"}
    assert await migrate.is_current(connection, tree.set)


async def test_functions_may_come_in_any_order_and_with_views_and_triggers(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    tree.function("a.sql", "a()", body="select pets.z()")
    tree.function("z.sql", "z()")
    tree.write("functions/view.sql", "create or replace view pets.zoo as select pets.z() as z")
    tree.write(
        "functions/trigger.sql",
        "create or replace function pets.refuse() returns trigger language plpgsql as $$ begin return null; end $$;"
        "create or replace trigger refuse before insert on pets.cats for each row execute function pets.refuse();",
    )
    await migrate.up(connection, tree.set)
    await connection.execute("insert into pets.cats values (1)")
    assert await connection.fetchval("select count(*) from pets.cats") == 0
    for file in ("view.sql", "trigger.sql", "z.sql", "a.sql"):
        (tree.root / "functions" / file).unlink()
    await migrate.up(connection, tree.set)
    assert await functions(connection) == {"pets.count_pets()"}
    assert await connection.fetchval("select to_regclass('pets.zoo')") is None


async def test_what_others_built_on_a_function_is_not_dropped_with_it(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    await migrate.up(connection, tree.set)
    await connection.execute("create view public.mine as select pets.count_pets() as n")
    (tree.root / "functions/count.sql").unlink()
    with pytest.raises(asyncpg.DependentObjectsStillExistError, match=r"pets\.count_pets\(\)") as caught:
        await migrate.up(connection, tree.set)
    assert "view public.mine" in str(caught.value.as_dict()["detail"])
    assert await connection.fetchval("select n from public.mine") == 0


async def test_down_takes_back_one_step(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    await migrate.up(connection, tree.set)
    assert await migrate.down(connection, tree.set, to=1) == ["0002_dogs"]
    assert await connection.fetchval("select to_regclass('pets.dogs')") is None
    assert await connection.fetchval("select to_regclass('pets.cats')") is not None
    assert await functions(connection) == set()
    assert await states(connection, tree) == {
        "0001_cats": "applied",
        "0002_dogs": "pending",
        "count.sql": "pending",
    }


async def test_down_to_zero_leaves_nothing(connection: asyncpg.Connection[asyncpg.Record], tree: Tree) -> None:
    await migrate.up(connection, tree.set)
    assert await migrate.down(connection, tree.set, to=0) == ["0002_dogs", "0001_cats"]
    assert await connection.fetchval("select to_regnamespace('pets')") is None
    assert await migrate.down(connection, tree.set, to=0) == []


@pytest.mark.parametrize("name", sorted(migrate.SETS))
async def test_up_down_up_gives_the_same_schema(postgres: object, empty_database: str, name: str) -> None:
    migrations = migrate.SETS[name]
    connection = await asyncpg.connect(empty_database)
    bare = describe(empty_database)
    await migrate.up(connection, migrations)
    first = describe(empty_database)
    await migrate.down(connection, migrations, to=0)
    assert describe(empty_database) == bare
    await migrate.up(connection, migrations)
    assert describe(empty_database) == first
    for version in reversed(range(len(migrations.migrations))):
        await migrate.down(connection, migrations, to=version)
        await migrate.up(connection, migrations)
        assert describe(empty_database) == first
    await connection.close()


async def test_plan_without_a_connection_is_the_whole_schema(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    text = await migrate.plan(None, tree.set)
    assert text.index("create table pets.cats") < text.index("create table pets.dogs") < text.index("count_pets()")
    assert await migrate.plan(connection, tree.set) == text
    assert await connection.fetchval("select to_regnamespace('pets')") is None


async def test_plan_with_a_connection_is_what_is_missing(
    connection: asyncpg.Connection[asyncpg.Record], tree: Tree
) -> None:
    await migrate.up(connection, tree.set, to=1)
    text = await migrate.plan(connection, tree.set)
    assert "pets.cats (" not in text
    assert "-- pets: migration 0002_dogs\n" in text
    await migrate.up(connection, tree.set)
    assert await migrate.plan(connection, tree.set) == ""


async def test_a_migration_that_waits_too_long_says_so(
    connection: asyncpg.Connection[asyncpg.Record], empty_database: str, tree: Tree
) -> None:
    other = await asyncpg.connect(empty_database)
    async with other.transaction():
        await other.execute("select pg_advisory_xact_lock(hashtextextended('queen.migrate.pets', 0))")
        with pytest.raises(MigrationError, match=r"another process has been migrating the schema pets for 0\.1 s"):
            await migrate.up(connection, tree.set, timeout=0.1)
    assert len(await migrate.up(connection, tree.set)) == 3
    await other.close()


async def test_concurrent_migrations_happen_once(empty_database: str, tree: Tree) -> None:
    connections = [await asyncpg.connect(empty_database) for _ in range(8)]
    results = await asyncio.gather(*(migrate.up(connection, tree.set) for connection in connections))
    assert sorted(map(len, results)) == [0] * 7 + [3]
    for connection in connections:
        await connection.close()
