"""One server per run, one database per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import TEMPLATE, Postgres, forget_run, name_run, run_server, scratch_directory

pytest_plugins = ["tests.support.collector"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL of this run: fast, not durable, shared by all workers."""
    with run_server() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """The address of a fresh database with the schema in it."""
    with postgres.scratch(TEMPLATE) as dsn:
        yield dsn


@pytest.fixture
def empty_database(postgres: Postgres) -> Iterator[str]:
    """The address of a fresh database with nothing in it."""
    with postgres.scratch("template0") as dsn:
        yield dsn


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory for a server of a test's own: `tmp_path` is closed to the server's user."""
    with scratch_directory() as path:
        yield path


@pytest.fixture(scope="session")
def quick_java(pytestconfig: pytest.Config) -> None:
    """Every JVM started from here on starts quickly, in this process or in those it starts."""
    from tests.spark.support.java import hurry

    assert pytestconfig.cache is not None
    hurry(pytestconfig.cache.mkdir("spark-classes"))


def pytest_configure() -> None:
    name_run()


def pytest_unconfigure() -> None:
    forget_run()
