"""Synchronous stores and runtimes that are shut down after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from queen.durable import Client, Runtime, RuntimeOptions, SqliteProvider

MakeRuntime = Callable[..., Runtime]


@pytest.fixture
def store() -> Iterator[SqliteProvider]:
    """An empty store in memory."""
    with SqliteProvider.in_memory() as opened:
        yield opened


@pytest.fixture
def client(store: SqliteProvider) -> Client:
    """A client on the store."""
    return Client(store)


@pytest.fixture
def make_runtime(store: SqliteProvider) -> Iterator[MakeRuntime]:
    """Builds runtimes on the store; `start` them yourself."""
    made: list[Runtime] = []

    def build(**options: Any) -> Runtime:
        made.append(Runtime(store, RuntimeOptions(**options)))
        return made[-1]

    yield build
    for each in made:
        each.shutdown(100)


@pytest.fixture
def runtime(make_runtime: MakeRuntime) -> Runtime:
    """A runtime with the activities most tests use."""
    built = make_runtime()
    built.register_activity("echo", lambda _ctx, value: value)

    @built.register_activity("bad")
    def bad(_ctx: Any, _value: Any) -> None:
        raise ValueError("boom")

    return built
