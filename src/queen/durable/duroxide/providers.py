"""Stores as synchronous callers open them."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

from queen.durable.loop_thread import LoopThread
from queen.durable.provider import Provider, ProviderError
from queen.durable.providers.postgres.provider import PostgresProvider as AsyncPostgresProvider
from queen.durable.providers.sqlite.provider import SqliteProvider as AsyncSqliteProvider

T = TypeVar("T")


class Store:
    """A provider with a loop of its own; shared by the clients and runtimes made from it."""

    def __init__(self, opening: Coroutine[Any, Any, Provider]) -> None:
        self._thread = LoopThread()
        try:
            self.provider = self.call(opening)
        except BaseException:
            self._thread.close()
            raise
        self._finalizer = weakref.finalize(self, _close, self._thread, self.provider)
        self._finalizer.atexit = False

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the store's loop; provider errors become RuntimeError."""
        try:
            return self._thread.call(work, timeout)
        except ProviderError as error:
            raise RuntimeError(error.message) from error

    def close(self) -> None:
        """Close the store; also happens when nobody refers to it any more."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SqliteProvider(Store):
    """Durable instances in a SQLite file, or in memory."""

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a file or a `sqlite:` URL; it is made when missing."""
        return cls(AsyncSqliteProvider.open(path))

    @classmethod
    def in_memory(cls) -> Self:
        """A store that lives as long as this object."""
        return cls(AsyncSqliteProvider.in_memory())


class PostgresProvider(Store):
    """Durable instances in a schema of a PostgreSQL database."""

    @classmethod
    def connect(cls, url: str) -> Self:
        """Use the default schema; it is made and migrated when missing."""
        return cls(AsyncPostgresProvider.connect(url))

    @classmethod
    def connect_with_schema(cls, url: str, schema: str) -> Self:
        """Use a schema of your own, so that many tenants share one database."""
        return cls(AsyncPostgresProvider.connect(url, schema=schema))


def _close(thread: LoopThread, provider: Provider) -> None:
    try:
        thread.call(provider.close(), timeout=10)
    finally:
        thread.close()
