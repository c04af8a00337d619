"""Least privilege: what each role of `queen init --roles` may do, tried on every function and table of the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from psycopg import sql

from queen.db import migrate
from queen.sql import query
from tests.sql.mutation import FUNCTIONS, plant

ROLES = {
    "queen_producer": {"push", "push_many"},
    "queen_consumer": {"pop", "ack", "nack", "renew"},
    "queen_observer": set[str](),
}
VIEWS = "select c.relname from pg_class c where c.relnamespace = 'queen'::regnamespace and c.relkind = 'v'"
RELATIONS = (
    "select c.relname from pg_class c where c.relnamespace = 'queen'::regnamespace and c.relkind in ('r', 'p', 'v')"
)
CALLS = """
select p.proname, p.prorettype = 'trigger'::regtype,
       format('select queen.%I(%s)', p.proname, (
           select coalesce(string_agg('null::' || format_type(t.type, null), ', ' order by t.n), '')
             from unnest(p.proargtypes) with ordinality t(type, n)))
  from pg_proc p where p.pronamespace = 'queen'::regnamespace and p.prokind = 'f'
"""

Sql = psycopg.Connection[Any]


@pytest.fixture
async def roles(database: str) -> str:
    async with migrate.connect(database) as connection:
        await migrate.make_roles(connection)
    return database


@pytest.fixture
def owner(roles: str) -> Iterator[Sql]:
    with psycopg.connect(roles, autocommit=True) as connection:
        yield connection


def become(connection: Sql, role: str) -> None:
    connection.execute(sql.SQL("set session authorization {}").format(sql.Identifier(role)))


@pytest.fixture
def member(owner: Sql) -> Iterator[str]:
    """An application's own role, which belongs to none of ours yet."""
    name = f"app_{uuid4().hex[:8]}"
    owner.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
    yield name
    owner.execute("reset session authorization")
    owner.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def allowed(connection: Sql) -> set[str]:
    """The functions that the role at hand may execute, found by calling every one with nulls."""
    may = set()
    for name, is_trigger, call in connection.execute(CALLS).fetchall():
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("set local lock_timeout = '2s'")
                connection.execute(call.encode())
        except psycopg.errors.InsufficientPrivilege as refusal:
            if f"function {name}" not in str(refusal):  # it ran, and stumbled over what it calls
                may.add(name)
        except psycopg.Error:
            if not is_trigger:
                may.add(name)
        else:
            may.add(name)
    return may


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_call_its_own_functions_and_no_other(owner: Sql, role: str) -> None:
    become(owner, role)
    assert allowed(owner) == ROLES[role]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_and_writes_no_table(owner: Sql, role: str) -> None:
    views = {name for (name,) in owner.execute(VIEWS)}
    names = {name for (name,) in owner.execute(RELATIONS.encode())}
    become(owner, role)
    readable = set()
    for name in names:
        for statement in ["select count(*) from queen.{}", *(["delete from queen.{}"] if name not in views else [])]:
            try:
                owner.execute(sql.SQL(statement).format(sql.Identifier(name)))
                readable.add(name)
            except psycopg.errors.InsufficientPrivilege:
                pass
    assert readable == (views if role == "queen_observer" else set())


def test_nothing_is_executable_by_everybody(owner: Sql, member: str) -> None:
    owner.execute(sql.SQL("grant usage on schema queen, queen_durable to {}").format(sql.Identifier(member)))
    become(owner, member)
    assert allowed(owner) == set()
    public = (
        "select count(*) from pg_proc where pronamespace in ('queen'::regnamespace, 'queen_durable'::regnamespace) and"
    )
    count = owner.execute(f"{public} has_function_privilege('public', oid, 'execute')".encode()).fetchone()
    assert count == (0,)
    owner.execute("reset session authorization")
    owner.execute(sql.SQL("revoke usage on schema queen, queen_durable from {}").format(sql.Identifier(member)))


def test_a_member_pushes_and_another_pops(owner: Sql, member: str) -> None:
    owner.execute(sql.SQL("grant queen_producer to {}").format(sql.Identifier(member)))
    become(owner, member)
    owner.execute("select queen.push('q', 'p', '1')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        owner.execute("select * from queen.pop('q')")
    become(owner, "queen_consumer")
    lease = owner.execute("select lease_id from queen.pop('q')").fetchone()
    assert lease is not None
    assert owner.execute("select queen.ack(%s)", lease).fetchone() == (1,)
    become(owner, "queen_observer")
    assert owner.execute("select current_depth from queen.queue_depths").fetchall() == [(0,)]


def test_the_admin_configures_and_reads(owner: Sql) -> None:
    become(owner, "queen_admin")
    owner.execute("select queen.configure('q', '{\"retry_limit\": 7}')")
    owner.execute("select queen.push('q', 'p', '1')")
    owner.execute("select * from queen.pop('q')")
    owner.execute("select * from queen.seek('q', '__QUEUE_MODE__', 'start')")
    assert owner.execute("select retry_limit from queen.queues").fetchall() == [(7,)]
    assert owner.execute("select count(*) from queen.messages").fetchone() == (1,)


async def test_a_migration_that_replaces_functions_keeps_it_so(roles: str) -> None:
    connection = await asyncpg.connect(roles)
    await connection.execute("drop function queen.push(text, text, jsonb, text, uuid, timestamptz, uuid)")
    await connection.execute("delete from queen.schema_migrations where name in ('push.sql', 'clear_queue.sql')")
    await connection.execute("drop function queen.clear_queue(text)")
    await migrate.up(connection)
    may = "select has_function_privilege($1, $2, 'execute')"
    push = "queen.push(text, text, jsonb, text, uuid, timestamptz, uuid)"
    assert await connection.fetchval(may, "queen_producer", push)
    assert not await connection.fetchval(may, "public", push)
    assert not await connection.fetchval(may, "queen_producer", "queen.clear_queue(text)")
    assert not await connection.fetchval(may, "public", "queen.clear_queue(text)")
    await connection.close()


async def test_roles_may_be_made_twice(roles: str) -> None:
    async with migrate.connect(roles) as connection:
        await migrate.make_roles(connection)
        assert await connection.fetchval("select value from queen.settings where key = 'roles'") == "true"
    assert "grant_roles" in query("migrate/roles")


def entry_points() -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in FUNCTIONS.rglob("*.sql")]
    return [text for text in texts if "volatile security definer" in text]


def test_every_entry_point_has_a_search_path_of_its_own() -> None:
    points = entry_points()
    assert len(points) == sum(map(len, ROLES.values()))
    assert all("security definer\nset search_path = pg_catalog, pg_temp" in text for text in points)


TRAP = "language plpgsql as $$ begin raise exception 'ran as %', current_user; end $$"
TRAPS = [
    f"create function evil.equal(a text, b text) returns boolean {TRAP}",
    f"create function evil.equal(a bigint, b bigint) returns boolean {TRAP}",
    f"create function evil.plus(a bigint, b integer) returns bigint {TRAP}",
    "create operator evil.= (leftarg = text, rightarg = text, function = evil.equal)",
    "create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.equal)",
    "create operator evil.+ (leftarg = bigint, rightarg = integer, function = evil.plus)",
    f"create function evil.octet_length(a text) returns integer {TRAP}",
    f"create function evil.array_agg(a bigint) returns bigint[] {TRAP}",
    f"create function evil.pg_notify(a text, b text) returns void {TRAP}",
    f"create function evil.current_setting(a text, b boolean) returns text {TRAP}",
    f"create function evil.clock_timestamp() returns timestamptz {TRAP}",
    "create temp table partitions (id bigint)",
    "create temp table pg_class (oid oid)",
]


@pytest.fixture
def trapped(owner: Sql, member: str) -> Iterator[Sql]:
    """A caller with operators, functions and tables of their own in front of everything in their search path."""
    owner.execute(sql.SQL("grant queen_producer, queen_consumer to {}").format(sql.Identifier(member)))
    owner.execute(sql.SQL("create schema evil authorization {}").format(sql.Identifier(member)))
    become(owner, member)
    for statement in TRAPS:
        owner.execute(statement.encode())
    owner.execute("set search_path = evil, pg_temp, pg_catalog")
    yield owner
    owner.execute("reset search_path")
    owner.execute("reset session authorization")
    owner.execute("drop table pg_temp.partitions, pg_temp.pg_class")
    owner.execute("drop schema evil cascade")


def test_a_caller_cannot_slip_in_objects_of_their_own(trapped: Sql) -> None:
    trapped.execute("select queen.push('q', 'p', '1')")
    trapped.execute("select * from queen.push_many('q', '{p}', array['2'::jsonb])")
    lease = trapped.execute("select lease_id from queen.pop('q', 2)").fetchone()
    assert lease is not None
    trapped.execute("select queen.renew(%s)", lease)
    trapped.execute("select queen.nack(%s)", lease)
    lease = trapped.execute("select lease_id from queen.pop('q', 2)").fetchone()
    assert trapped.execute("select queen.ack(%s)", lease).fetchone() == (2,)


def test_without_its_own_search_path_an_entry_point_would_fall_for_it(trapped: Sql, roles: str) -> None:
    plant(roles, "an-entry-point-without-its-search-path")
    with pytest.raises(psycopg.errors.RaiseException, match="ran as"):
        trapped.execute("select queen.push('q', 'p', '1')")
