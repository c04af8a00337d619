"""A broker per test, on a database of its own, and a client for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.server.running import Running, run_broker


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
