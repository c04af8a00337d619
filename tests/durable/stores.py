"""Stores for tests: an address, a clock moved by hand, a way in behind the provider's back."""

from __future__ import annotations

import asyncio
import fcntl
import sqlite3
import time
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from queen.db import migrate
from queen.durable.provider import Provider
from queen.durable.providers.postgres import provider as postgres_provider
from queen.durable.providers.postgres.mailbox import PostgresMailbox
from queen.durable.providers.postgres.provider import PostgresProvider
from queen.durable.providers.sqlite import provider as sqlite_provider
from queen.durable.providers.sqlite.mailbox import SqliteMailbox
from queen.durable.providers.sqlite.provider import SqliteProvider
from queen.durable.providers.wake import Clock, Signal
from tests.support.postgres import TEMPLATE, Postgres, run_directory
from tests.support.wait import eventually

DURABLE_TEMPLATE = "queen_durable_template"
# Longer than any test: what ends a wait is a notice, not another look.
NEVER_SECONDS = 600.0


@dataclass
class ManualClock:
    """Time stands still until it is moved."""

    now: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    looks: int = 0

    def __call__(self) -> int:
        self.looks += 1
        return self.now

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds


@dataclass(frozen=True)
class Address:
    """Where a store is: a file, or a database."""

    kind: str
    where: str

    async def open(self, clock: Clock | None = None) -> Provider:
        if self.kind == "sqlite":
            return await (SqliteProvider.open(self.where, clock=clock) if clock else SqliteProvider.open(self.where))
        return await PostgresProvider.connect(self.where, clock=clock, pool_size=4)

    async def open_mailbox(self, clock: Clock | None = None) -> SqliteMailbox | PostgresMailbox:
        if self.kind == "sqlite":
            return await (SqliteMailbox.open(self.where, clock=clock) if clock else SqliteMailbox.open(self.where))
        return await PostgresMailbox.connect(self.where, clock=clock, pool_size=4)

    async def execute(self, statement: str, *parameters: Any) -> list[Any]:
        """Run SQL behind the provider's back; ``{}`` stands for the schema, ``?`` for parameters."""
        if self.kind == "sqlite":
            with sqlite3.connect(self.where, timeout=10) as connection:
                rows: list[Any] = connection.execute(statement.replace("{}", ""), parameters).fetchall()
            connection.close()
            return rows
        text = statement.replace("{}", "queen_durable.")
        for number in range(1, len(parameters) + 1):
            text = text.replace("?", f"${number}", 1)
        direct = await asyncpg.connect(self.where)
        try:
            return list(await direct.fetch(text, *parameters))
        finally:
            await direct.close()


def only_by_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches that wait are told, or they wait on: none looks again by itself."""
    monkeypatch.setattr(sqlite_provider, "_FALLBACK_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(postgres_provider, "LISTENING_SECONDS", NEVER_SECONDS)


def signals_of(provider: Provider) -> list[Signal]:
    """What tells the fetches of a provider that there may be something."""
    signals = [value for value in vars(provider).values() if isinstance(value, Signal)]
    assert signals
    return signals


async def parked(provider: Provider, fetches: int) -> None:
    """Wait until so many fetches have looked, found nothing and wait."""
    signals = signals_of(provider)
    await eventually(lambda: sum(waiter._waiting for signal in signals for waiter in signal._waiters) == fetches)


def make_durable_template(postgres: Postgres) -> None:
    """A template with both schemas, made once per run; whoever comes second waits and finds it done."""
    with (run_directory() / "durable.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run_directory() / "durable.done"
        if done.exists():
            return
        postgres.execute("create database {} template {}", DURABLE_TEMPLATE, TEMPLATE)
        asyncio.run(_migrate(postgres.dsn(DURABLE_TEMPLATE)))
        done.touch()


async def _migrate(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await migrate.up(connection, migrate.DURABLE)
    finally:
        await connection.close()
