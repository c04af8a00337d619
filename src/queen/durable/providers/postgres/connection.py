"""Calls to the database: one statement per call, errors in the provider's words."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import asyncpg

from queen.db import migrate, pool
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.schema import Schema
from queen.errors import QueenError

__all__ = ["BROKEN", "Calls", "Database", "LentDatabase", "Pooler", "Row"]

Row = Any
Pooler = Literal["session", "transaction"]

_POOL_SIZE = 10
_CALL_SECONDS = 30.0
_RETRIES = 4
_CONFLICTS = {"40001", "40P01", "QD002"}
_TRANSIENT_CLASSES = {"08", "40", "53", "55", "57", "58"}
# The driver's internal error is its word for a connection that broke in the middle of something.
BROKEN = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


class Calls(ABC):
    """Statements of one schema, by name."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @abstractmethod
    async def call(self, operation: str, statement: str, *parameters: Any) -> list[Row]:
        """Run one statement in a transaction of its own; conflicts between transactions are tried again."""

    @abstractmethod
    async def close(self) -> None:
        """Finish running calls and let go of the database."""

    async def steps(self) -> "asyncpg.Pool[asyncpg.Record]":
        """Connections for the transactions of steps, which may take as long as they like."""
        raise ProviderError("transaction", "a step in a transaction needs a provider with connections of its own")

    async def value(self, operation: str, statement: str, *parameters: Any) -> Any:
        """The first column of the first row."""
        rows = await self.call(operation, statement, *parameters)
        return rows[0][0] if rows else None


class LentDatabase(Calls):
    """The connections of somebody else, who keeps the schema up to date and closes them."""

    def __init__(self, lender: pool.Database, schema: Schema) -> None:
        super().__init__(schema)
        self._lender = lender

    async def call(self, operation: str, statement: str, *parameters: Any) -> list[Row]:
        try:
            return await self._lender.fetch(self.schema[statement], *parameters)
        except QueenError as error:
            code = "unavailable" if error.retryable else "invalid"
            raise ProviderError(operation, error.message, retryable=error.retryable, code=code) from error

    async def close(self) -> None:
        """Nothing: the lender does."""


class Database(Calls):
    """A pool of connections to one schema."""

    def __init__(
        self,
        connections: "asyncpg.Pool[asyncpg.Record]",
        schema: Schema,
        open_steps: "Callable[[], Awaitable[asyncpg.Pool[asyncpg.Record]]]",
    ) -> None:
        super().__init__(schema)
        self._pool = connections
        self._open_steps = open_steps
        self._steps: asyncio.Task[asyncpg.Pool[asyncpg.Record]] | None = None
        self._closed = False

    @classmethod
    async def open(
        cls, url: str, schema: Schema, *, pool_size: int = _POOL_SIZE, pooler: Pooler = "session"
    ) -> "Database":
        """Connect and bring the schema up to date; many processes may do so at once.

        Behind a pooler in transaction mode nothing is prepared or set on a connection.
        """
        direct = pooler == "session"
        try:
            connections = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=pool_size,
                command_timeout=_CALL_SECONDS,
                statement_cache_size=100 if direct else 0,
                server_settings={"jit": "off", "plan_cache_mode": "force_generic_plan"} if direct else None,
                reset=_keep,
            )
        except (asyncpg.PostgresError, *BROKEN) as error:
            raise translate("connect", error) from error
        try:
            async with connections.acquire() as connection:
                if not await migrate.is_current(connection, schema.migrations):
                    await migrate.up(connection, schema.migrations)
        except BaseException as error:
            await connections.close()
            if isinstance(error, (asyncpg.PostgresError, migrate.MigrationError)):
                raise translate("connect", error) from error
            raise

        async def open_steps() -> "asyncpg.Pool[asyncpg.Record]":
            return await asyncpg.create_pool(
                url, min_size=0, max_size=pool_size, statement_cache_size=100 if direct else 0
            )

        return cls(connections, schema, open_steps)

    async def close(self) -> None:
        """Finish running calls, then close; what does not end in time is cut off."""
        self._closed = True
        await _close_pool(self._pool)
        if self._steps is not None:
            with contextlib.suppress(asyncpg.PostgresError, *BROKEN):
                await _close_pool(await self._steps)

    async def steps(self) -> "asyncpg.Pool[asyncpg.Record]":
        if self._steps is None or (self._steps.done() and self._steps.exception() is not None):
            self._steps = asyncio.ensure_future(self._open_steps())
        try:
            return await asyncio.shield(self._steps)
        except (asyncpg.PostgresError, *BROKEN) as error:
            raise translate("transaction", error) from error

    async def call(self, operation: str, statement: str, *parameters: Any) -> list[Row]:
        for attempt in range(_RETRIES):
            try:
                return list(await self._pool.fetch(self.schema[statement], *parameters))
            except asyncpg.PostgresError as error:
                if error.sqlstate not in _CONFLICTS or attempt == _RETRIES - 1:
                    raise translate(operation, error) from error
                await asyncio.sleep(0.01 * 2**attempt)
            except BROKEN as error:
                if self._closed:
                    raise ProviderError(operation, "the provider is closed", code="closed") from error
                raise translate(operation, error) from error
        raise AssertionError("unreachable")


async def _close_pool(connections: "asyncpg.Pool[asyncpg.Record]") -> None:
    try:
        async with asyncio.timeout(5):
            await connections.close()
    except TimeoutError:
        connections.terminate()


async def _keep(_connection: Any) -> None:
    """No call leaves session state behind, so nothing is reset: a round trip less for each."""


def translate(operation: str, error: Exception) -> ProviderError:
    """Say a driver's error in the provider's words."""
    text = str(error) or type(error).__name__
    if isinstance(error, asyncpg.DataError):
        return ProviderError(operation, text)
    if not isinstance(error, asyncpg.PostgresError):
        return ProviderError(operation, text, retryable=True, code="unavailable")
    state = error.sqlstate or ""
    if state == "23505":
        return ProviderError(operation, text, code="duplicate_event")
    if state == "QD001":
        return ProviderError(operation, text, code="lock_lost")
    if state[:2] in _TRANSIENT_CLASSES or state == "QD002":
        return ProviderError(operation, text, retryable=True, code="unavailable")
    return ProviderError(operation, text)
