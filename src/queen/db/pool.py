"""Connections to PostgreSQL: one pool per process, every wait limited, every failure one of ours.

Works behind a transaction-mode pooler: no state outlives a transaction (R13). There, time-outs are
set inside each transaction; on a direct connection they are set once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

import asyncpg

from queen import errors
from queen.sql import query

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

Row = asyncpg.Record
Isolation = Literal["read_committed", "repeatable_read", "serializable"]
T = TypeVar("T")

RETRY_DELAYS: Final = (0.1, 0.2, 0.4)
# So many connections stay with us between two uses: the driver's pool costs as much each time as a small call.
KEPT: Final = 4
_BY_CODE: Final[dict[str, type[errors.QueenError]]] = {
    "QUEUE_FULL": errors.QueueFull,
    "QUEUE_NOT_FOUND": errors.QueueNotFound,
    "ENCRYPTION_REQUIRED": errors.EncryptionRequired,
}
_MISSING_SCHEMA: Final = (
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
)
_CONNECTION_LOST: Final = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver's word for a connection that broke in the middle of something
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
)


class OutcomeUnknown(errors.StoreUnavailable):
    """The connection broke while a statement was under way: it may or may not have committed."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How to connect. Times are seconds."""

    size: int = 10
    pooler: Literal["session", "transaction"] = "session"
    connect_timeout: float = 10.0
    acquire_timeout: float = 10.0
    statement_timeout: float = 30.0
    lock_timeout: float = 5.0


def translate(error: BaseException) -> errors.QueenError:
    """The error of ours that says what a failure of the driver means to the caller."""
    match error:
        case errors.QueenError():
            return error
        case asyncpg.PostgresError(sqlstate="QU001"):
            return _refusal(error)
        case asyncpg.LockNotAvailableError():
            return errors.PartitionBusy("a partition is held by another transaction; try again")
        case asyncpg.SerializationError() | asyncpg.DeadlockDetectedError():
            return errors.TransactionConflict(f"concurrent changes: {_words(error)}")
        case asyncpg.QueryCanceledError() | TimeoutError():
            return errors.StoreUnavailable("the database did not answer in time")
        case asyncpg.ObjectNotInPrerequisiteStateError() if "not currently accepting connections" in str(error):
            return errors.StoreUnavailable(f"no connection to the database: {_words(error)}")
        case asyncpg.DataError():
            return errors.InvalidRequest("payload", f"PostgreSQL cannot store this: {_words(error)}")
    if isinstance(error, _MISSING_SCHEMA):
        return errors.SchemaOutdated(f"the database has no current schema, run `queen migrate up`: {_words(error)}")
    if isinstance(error, _CONNECTION_LOST):
        return errors.StoreUnavailable(f"no connection to the database: {_words(error)}")
    return errors.InternalError(f"{type(error).__name__}: {_words(error)}")


def _words(error: BaseException) -> str:
    """What an error says, without the details and hints that the driver adds: those may quote what others stored."""
    return str(error).partition("\nDETAIL:")[0].partition("\nHINT:")[0]


def _refusal(error: asyncpg.PostgresError) -> errors.QueenError:
    code, message = str(error.detail), _words(error)
    figures = json.loads(error.hint) if error.hint else {}
    if code.startswith("INVALID_"):
        return errors.InvalidRequest(code.removeprefix("INVALID_").lower(), message)
    return _BY_CODE.get(code, errors.InternalError)(message, figures=figures)


class Database:
    """A pool of connections, opened on entry."""

    def __init__(self, dsn: str, options: PoolOptions | None = None) -> None:
        self.dsn = dsn
        self.options = options or PoolOptions()
        self._pool: Pool | None = None
        self._opening = asyncio.Lock()
        self._kept: list[PoolConnectionProxy[asyncpg.Record]] = []
        self._waiting = 0
        self.waits = 0
        self.wait_seconds = 0.0

    async def open(self) -> None:
        """Connect; raises StoreUnavailable when that does not work."""
        await self._connected()

    async def close(self, timeout: float = 10.0) -> None:
        """Close every connection, the ones still busy after `timeout` by force."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        while self._kept:
            await self._give_back(pool, self._kept.pop())
        try:
            await asyncio.wait_for(pool.close(), timeout)
        except TimeoutError:
            pool.terminate()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def sizes(self) -> tuple[int, int]:
        """Connections open and idle."""
        return (self._pool.get_size(), self._pool.get_idle_size() + len(self._kept)) if self._pool else (0, 0)

    async def _connected(self) -> Pool:
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                self._pool = await self._create()
        return self._pool

    async def _create(self) -> Pool:
        options = self.options
        direct = options.pooler == "session"
        limits = {
            "statement_timeout": str(int(options.statement_timeout * 1000)),
            "lock_timeout": str(int(options.lock_timeout * 1000)),
            "idle_in_transaction_session_timeout": "60000",
        }
        try:
            return await asyncpg.create_pool(
                self.dsn,
                min_size=1,
                max_size=options.size,
                max_inactive_connection_lifetime=300,
                timeout=options.connect_timeout,
                command_timeout=options.statement_timeout + 5,
                statement_cache_size=100 if direct else 0,
                server_settings={"application_name": "queen", **limits} if direct else None,
                reset=_nothing,
            )
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            raise errors.StoreUnavailable(
                f"cannot connect to PostgreSQL: {str(error) or 'no answer in time'}"
            ) from error

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Borrow a connection for a block."""
        pool = await self._connected()
        connection = await self._next(pool)
        self.waits += 1
        try:
            yield connection
        except BaseException:
            await self._give_back(pool, connection)
            raise
        if self._waiting or len(self._kept) >= KEPT or pool is not self._pool or not _lives(connection):
            await self._give_back(pool, connection)
        else:
            self._kept.append(connection)

    async def _next(self, pool: Pool) -> PoolConnectionProxy[asyncpg.Record]:
        while self._kept:
            connection = self._kept.pop()
            if _lives(connection):
                return connection
            await self._give_back(pool, connection)
        return await self._acquire(pool)

    async def _acquire(self, pool: Pool) -> PoolConnectionProxy[asyncpg.Record]:
        started = time.monotonic()
        self._waiting += 1
        try:
            return await pool.acquire(timeout=self.options.acquire_timeout)
        except TimeoutError as error:
            raise errors.StoreUnavailable("no database connection became free in time") from error
        except (*_CONNECTION_LOST, asyncpg.PostgresError) as error:
            raise translate(error) from error
        finally:
            self._waiting -= 1
            self.wait_seconds += time.monotonic() - started

    async def _give_back(self, pool: Pool, connection: PoolConnectionProxy[asyncpg.Record]) -> None:
        try:
            await pool.release(connection, timeout=self.options.connect_timeout)
        except (*_CONNECTION_LOST, asyncpg.PostgresError, TimeoutError):
            connection.terminate()  # it broke while it was lent; the pool makes another

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        """Run one statement as a transaction of its own; conflicts are tried again."""
        return await self._attempt(lambda c: self._fetch_once(c, sql, args))

    async def _fetch_once(self, connection: Connection, sql: str, args: Sequence[Any]) -> list[Row]:
        if self.options.pooler == "session":
            return await connection.fetch(sql, *args)
        async with connection.transaction():
            await self._limit(connection)
            return await connection.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> Row:
        """The first row of `fetch`; there must be one."""
        return (await self.fetch(sql, *args))[0]

    async def transaction(
        self, work: Callable[[Connection], Awaitable[T]], isolation: Isolation = "read_committed"
    ) -> T:
        """Run `work` in one transaction; conflicts roll it back and run it again, so it must be repeatable."""

        async def once(connection: Connection) -> T:
            async with connection.transaction(isolation=isolation):
                if self.options.pooler != "session":
                    await self._limit(connection)
                return await work(connection)

        return await self._attempt(once)

    async def _limit(self, connection: Connection) -> None:
        await connection.fetch(
            query("engine/limit"), f"{self.options.statement_timeout}s", f"{self.options.lock_timeout}s"
        )

    async def _attempt(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        for delay in (*RETRY_DELAYS, None):
            try:
                async with self.connection() as connection:
                    return await self._guarded(work, connection)
            except errors.TransactionConflict:
                if delay is None:
                    raise
                await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    async def _guarded(self, work: Callable[[Connection], Awaitable[T]], connection: Connection) -> T:
        try:
            return await work(connection)
        except (*_CONNECTION_LOST, asyncpg.PostgresError, TimeoutError) as error:
            ours = translate(error)
            if type(ours) is errors.StoreUnavailable and not isinstance(error, asyncpg.QueryCanceledError):
                raise OutcomeUnknown(ours.message) from error
            raise ours from error


def _lives(connection: PoolConnectionProxy[asyncpg.Record]) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:  # the driver has taken back what broke
        return False


async def _nothing(_: object) -> None:
    """No state outlives a transaction, so a returned connection needs no cleaning; that saves a round trip."""
