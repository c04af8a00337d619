"""One thread that owns the connection, and the async face of it.

Whoever asks while a transaction is being committed rides in the next one: all operations waiting at that
moment share one transaction, and with it the cost of the sync. When one of them fails, all are undone and done
again, each in a savepoint of its own, so that it fails alone.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from queen.durable.provider import ProviderError
from queen.durable.providers.sqlite.statements import Statements, connect
from queen.durable.providers.wake import Clock

__all__ = ["Database"]

Result = TypeVar("Result")
Following = TypeVar("Following")

_MAX_BATCH = 128
_TRANSIENT = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}


@dataclass(slots=True, eq=False)
class _Operation:
    name: str
    work: Callable[[Statements], Any]
    future: "asyncio.Future[Any]"
    write: bool
    durable: bool
    probe: Callable[[Statements], Any] | None
    after: Callable[[Statements], Any] | None = None
    result: Any = None
    error: ProviderError | None = field(default=None)


class Database:
    """Runs functions of :class:`Statements` in transactions, on its own thread."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._statements = Statements(connection, clock)
        self._operations: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._synchronous = "sync_full"
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="queen-durable-sqlite", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: str, clock: Clock) -> "Database":
        """Open a file (made and migrated when missing) or ``:memory:``."""
        try:
            return cls(await asyncio.to_thread(connect, path), clock)
        except sqlite3.Error as error:
            raise _translate("open", error) from error

    async def write(
        self,
        name: str,
        work: Callable[[Statements], Result],
        *,
        durable: bool = True,
        probe: Callable[[Statements], Result | None] | None = None,
    ) -> Result:
        """Run ``work`` holding the write lock from the start; answer once it is committed.

        Not ``durable``: a power failure (not a crash) may undo it, together with everything after it.
        ``probe`` looks first, without a lock; if it has an answer, that is it.
        """
        result: Result = await self._submit(name, work, write=True, durable=durable, probe=probe)
        return result

    async def write_then(
        self,
        name: str,
        work: Callable[[Statements], Result],
        after: Callable[[Statements], Following],
        *,
        durable: bool = True,
    ) -> tuple[Result, Following | None]:
        """Like :meth:`write`; ``after`` runs in the same transaction, when all that share it have done their work.

        It is ``None`` when that failed, which does not touch the work itself.
        """
        both: tuple[Result, Following | None] = await self._submit(
            name, work, write=True, durable=durable, probe=None, after=after
        )
        return both

    async def fetch(
        self,
        name: str,
        work: Callable[[Statements], Result],
        *,
        probe: Callable[[Statements], Result | None],
        undo: Callable[[Result], Awaitable[None]],
    ) -> Result:
        """Like :meth:`write`, for work that takes locks: a caller that was cancelled gives them back."""
        fetching = asyncio.create_task(self.write(name, work, durable=False, probe=probe))
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            with contextlib.suppress(ProviderError):
                await undo(await fetching)
            raise

    async def read(self, name: str, work: Callable[[Statements], Result]) -> Result:
        """Run ``work`` on one snapshot."""
        result: Result = await self._submit(name, work, write=False, durable=False, probe=None)
        return result

    async def close(self) -> None:
        """Finish what was asked for, then close the connection."""
        if not self._closed:
            self._closed = True
            self._operations.put(None)
            await asyncio.to_thread(self._thread.join)

    async def _submit(
        self,
        name: str,
        work: Callable[[Statements], Any],
        *,
        write: bool,
        durable: bool,
        probe: Callable[[Statements], Any] | None,
        after: Callable[[Statements], Any] | None = None,
    ) -> Any:
        if self._closed:
            raise ProviderError(name, "the provider is closed", code="closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._operations.put(_Operation(name, work, future, write, durable, probe, after))
        return await future

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            taken: _Operation | None = self._operations.get()
            batch: list[_Operation] = []
            while taken is not None:
                batch.append(taken)
                if len(batch) == _MAX_BATCH or self._operations.empty():
                    break
                taken = self._operations.get()
            stopping = taken is None
            if batch:
                self._execute(batch)
                self._loop.call_soon_threadsafe(_answer, batch)
        self._statements.connection.close()

    def _execute(self, batch: list[_Operation]) -> None:
        pending = [operation for operation in batch if not self._probed(operation)]
        if not pending:
            return
        if not self._transact(pending, nested=False) and len(pending) > 1:
            for operation in pending:
                operation.error = None
            self._transact(pending, nested=True)

    def _transact(self, pending: list[_Operation], *, nested: bool) -> bool:
        """Run operations in one transaction; false when one failed and, without savepoints, undid them all."""
        try:
            self._begin(pending)
            for operation in pending:
                self._attempt(operation, operation.work, nested=nested)
                if operation.error is not None and not nested:
                    self._statements.run("rollback")
                    return False
            for operation in pending:
                if operation.after is not None and operation.error is None:
                    self._follow(operation, operation.after)
            self._statements.run("commit")
        except sqlite3.Error as error:
            self._abort()
            for operation in pending:
                operation.error = operation.error or _translate(operation.name, error)
        return True

    def _probed(self, operation: _Operation) -> bool:
        if operation.probe is None:
            return False
        try:
            operation.result = operation.probe(self._statements)
        except sqlite3.Error as error:
            operation.error = _translate(operation.name, error)
            return True
        return operation.result is not None

    def _begin(self, batch: list[_Operation]) -> None:
        statements = self._statements
        if any(operation.write for operation in batch):
            level = "sync_full" if any(operation.durable for operation in batch) else "sync_normal"
            if level != self._synchronous:
                statements.run(level)
                self._synchronous = level
            statements.run("begin_write")
        else:
            statements.run("begin_read")

    def _attempt(self, operation: _Operation, work: Callable[[Statements], Any], *, nested: bool) -> None:
        if nested:
            self._statements.run("begin_operation")
        try:
            operation.result = work(self._statements)
        except ProviderError as error:
            operation.error = error
        except sqlite3.Error as error:
            operation.error = _translate(operation.name, error)
        except Exception as error:  # noqa: BLE001 the waiting caller gets it
            operation.error = ProviderError(operation.name, f"{type(error).__name__}: {error}")
        if not nested:
            return
        if operation.error is not None:
            self._statements.run("undo_operation")
        self._statements.run("end_operation")

    def _follow(self, operation: _Operation, after: Callable[[Statements], Any]) -> None:
        """What follows must not fail what was done: it is undone alone."""
        done = operation.result
        self._attempt(operation, after, nested=True)
        operation.result = done, None if operation.error is not None else operation.result
        operation.error = None

    def _abort(self) -> None:
        if self._statements.connection.in_transaction:
            self._statements.run("rollback")


def _answer(batch: list[_Operation]) -> None:
    for operation in batch:
        if operation.future.done():
            continue
        if operation.error is not None:
            operation.future.set_exception(operation.error)
        else:
            operation.future.set_result(operation.result)


def _translate(name: str, error: sqlite3.Error) -> ProviderError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _TRANSIENT:
        return ProviderError(name, str(error), retryable=True, code="unavailable")
    return ProviderError(name, str(error))
