"""Synchronous stores: files, URLs, schemas of PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queen.durable import Client, PostgresProvider, Runtime, SqliteProvider, init_tracing
from queen.durable.duroxide.providers import Store


def hello(store: Store) -> Any:
    """One orchestration with one activity, from start to end."""
    runtime = Runtime(store)
    runtime.register_activity("greet", lambda _ctx, name: f"Hello, {name}!")

    def code(ctx: Any, name: str) -> Any:
        ctx.trace_info(f"greeting {name}")
        return (yield ctx.schedule_activity("greet", name))

    runtime.register_orchestration("hello", code)
    runtime.start()
    try:
        client = Client(store)
        client.start_orchestration("h", "hello", "you")
        return client.wait_for_orchestration("h").output
    finally:
        runtime.shutdown(500)


def test_postgres(database: str) -> None:
    with PostgresProvider.connect(database) as store:
        assert hello(store) == "Hello, you!"


def test_schemas_of_one_database_are_apart(database: str) -> None:
    for schema in ("tenant_one", "tenant_two"):
        with PostgresProvider.connect_with_schema(database, schema) as store:
            assert Client(store).list_all_instances() == []
            assert hello(store) == "Hello, you!"


@pytest.mark.parametrize("form", ["{}", "sqlite:{}", "sqlite://{}"])
def test_a_file_outlives_the_store(tmp_path: Path, form: str) -> None:
    path = tmp_path / "durable.db"
    with SqliteProvider.open(form.format(path)) as store:
        assert hello(store) == "Hello, you!"
    assert path.exists()
    with SqliteProvider.open(path) as store:
        assert Client(store).get_status("h").output == "Hello, you!"


@pytest.fixture
def no_tracing() -> Iterator[None]:
    yield
    logger = logging.getLogger("queen.durable")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("no_tracing")
def test_tracing_to_a_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Failed to open log file"):
        init_tracing(str(tmp_path / "no" / "such" / "place.log"))
    log = tmp_path / "trace.log"
    init_tracing(str(log), "info", "json")
    with pytest.raises(RuntimeError, match="Failed to init tracing"):
        init_tracing(str(log))
    with SqliteProvider.in_memory() as store:
        hello(store)
    lines = [line for line in log.read_text().splitlines() if "greeting you" in line]
    assert len(lines) == 1, "once, not again in replay"
    assert '"instance_id": "h"' in lines[0]
