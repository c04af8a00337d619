"""Steps inside a transaction of the user's own: what they write and their result are committed together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from queen.durable.messages import OrchestratorMessage
from queen.durable.provider import ProviderError, StepTransaction
from queen.durable.providers.postgres.connection import BROKEN, Calls, translate
from queen.durable.providers.postgres.turns import message_row

__all__ = ["open_step"]

_NOTICE = "step o "


class _Step(StepTransaction):
    def __init__(self, connection: Any, database: Calls, token: str, given_now: int | None) -> None:
        self.connection = connection
        self._database = database
        self._token = token
        self._given_now = given_now

    async def finish(self, completion: OrchestratorMessage) -> None:
        schema = self._database.schema
        rows = [message_row(completion, 1)]
        try:
            held = await self.connection.fetchval(
                schema["finish_step"], self._token, rows, self._given_now, schema.name, _NOTICE
            )
        except (asyncpg.PostgresError, *BROKEN) as error:
            raise translate("transaction", error) from error
        if not held:
            raise ProviderError("transaction", "the lock is not held", code="lock_lost")


@asynccontextmanager
async def open_step(
    database: Calls, token: str, given_now: int | None, committed: Callable[[], None]
) -> AsyncIterator[StepTransaction]:
    """A transaction that ends with the item of `token`. What the caller's code raises goes through as it is."""
    connections = await database.steps()
    try:
        connection = await connections.acquire()
    except (asyncpg.PostgresError, *BROKEN) as error:
        raise translate("transaction", error) from error
    try:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield _Step(connection, database, token, given_now)
        except BaseException:
            if not connection.is_closed():
                await transaction.rollback()
            raise
        try:
            await transaction.commit()
        except (asyncpg.PostgresError, *BROKEN) as error:
            raise translate("transaction", error) from error
    finally:
        await connections.release(connection)
    committed()
