"""Brokers and clients: `client` has a broker and a database of its own, `api` shares them with other tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.server.running import Running, run_broker
from tests.support.postgres import TEMPLATE, Postgres

SECRET = "s" * 32


@pytest.fixture
def broker(database: str, tmp_path: Path) -> Iterator[Running]:
    """A running broker."""
    with run_broker(database, tmp_path) as running:
        yield running


@pytest.fixture
def client(broker: Running) -> Iterator[httpx2.Client]:
    """An HTTP client whose paths are relative to the broker."""
    with httpx2.Client(base_url=broker.url, timeout=40) as client:
        yield client


@pytest.fixture(scope="session")
def shared_broker(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A running broker for tests that keep to queues of their own."""
    with (
        postgres.scratch(TEMPLATE) as database,
        run_broker(database, tmp_path_factory.mktemp("broker"), encryption_keys=("ab" * 32,)) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def guarded(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker that asks for tokens signed with SECRET."""
    with (
        postgres.scratch(TEMPLATE) as database,
        run_broker(database, tmp_path_factory.mktemp("guarded"), jwt_enabled=True, jwt_secret=SECRET) as running,
    ):
        yield running


@pytest.fixture
def api(shared_broker: Running) -> Iterator[httpx2.Client]:
    """A client of the shared broker."""
    with httpx2.Client(base_url=shared_broker.url, timeout=40) as client:
        yield client


@pytest.fixture
def queue() -> str:
    """The name of a queue nobody else uses."""
    return f"queue-{uuid.uuid4().hex[:12]}"
