"""What tasks returned: messages of a queue of their own, each in a partition of its own, removed after a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from queen.client.errors import TaskFailed
from queen.client.payload import decode
from queen.client.push import new_message
from queen.model import NewMessage, PopRequest

if TYPE_CHECKING:
    from queen.client.app import App
    from queen.client.client import Client

_POLL: Final = 20.0
_LEASE: Final = 10


class _Result(msgspec.Struct, omit_defaults=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


class Results:
    """The results of an application's tasks."""

    def __init__(self, app: App, queue: str, keep: int) -> None:
        self._app = app
        self._queue = queue
        self._keep = keep
        self._ready = False

    async def prepare(self, client: Client) -> None:
        """See to it that results are removed after their time."""
        if not self._ready:
            await client.queues.configure(self._queue, retention_enabled=True, retention_seconds=self._keep)
            self._ready = True

    def message(self, call: UUID, *, value: object = None, error: str | None = None) -> NewMessage:
        """What to push when a call has ended."""
        text = {"error": error} if error is not None else {"result": value}
        return new_message(self._queue, text, str(call), str(call), None, None)

    async def wait(self, call: UUID, kind: Any, timeout: float) -> Any:
        """The result of a call; it can be asked for again."""
        client = await self._app.opened()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while (left := deadline - loop.time()) > 0:
            request = PopRequest(
                queue=self._queue, partition=str(call), wait=min(left, _POLL), lease_seconds=_LEASE, batch=1
            )
            found = await client.pop_request(request)
            if not found:
                continue
            await client.nack(found)
            told = msgspec.json.decode(found[0].payload, type=_Result)
            if told.error is not None:
                raise TaskFailed(told.error)
            return decode(bytes(told.result).decode(), kind)
        raise TimeoutError(f"the call {call} has no result after {timeout:g} s")
