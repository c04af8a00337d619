"""Durable stores: every test that asks for `address` runs once on SQLite and once on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from queen.durable.provider import Provider
from queen.durable.providers.postgres.mailbox import PostgresMailbox
from queen.durable.providers.sqlite.mailbox import SqliteMailbox
from tests.durable.stores import DURABLE_TEMPLATE, Address, ManualClock, make_durable_template
from tests.support.postgres import Postgres


@pytest.fixture(scope="session")
def durable_postgres(postgres: Postgres) -> Postgres:
    """The server of this run, with a template that has the durable schema."""
    make_durable_template(postgres)
    return postgres


@pytest.fixture
def postgres_address(durable_postgres: Postgres) -> Iterator[Address]:
    """A fresh PostgreSQL store."""
    with durable_postgres.scratch(DURABLE_TEMPLATE) as dsn:
        yield Address("postgres", dsn)


@pytest.fixture
def sqlite_address(tmp_path: Path) -> Address:
    """A fresh SQLite store."""
    return Address("sqlite", str(tmp_path / "durable.db"))


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> Address:
    """A fresh store of either kind."""
    found: Address = request.getfixturevalue(f"{request.param}_address")
    return found


@pytest.fixture
def store_url(address: Address) -> str:
    """The address of a fresh store, as `open_provider` takes it: for several processes, on the real clock."""
    return address.where


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture
async def provider(address: Address, clock: ManualClock) -> AsyncIterator[Provider]:
    """An open provider on a fresh store, with a clock of the test's own."""
    async with await address.open(clock) as opened:
        yield opened


@pytest.fixture
async def mailbox(address: Address, clock: ManualClock) -> AsyncIterator[SqliteMailbox | PostgresMailbox]:
    """An open mailbox on a fresh store, with a clock of the test's own."""
    async with await address.open_mailbox(clock) as opened:
        yield opened
