"""What tasks returned: messages of a queue of their own, each in a partition of its own, removed after a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from queen.client.errors import TaskFailed
from queen.client.payload import decode
from queen.client.push import new_message
from queen.model import NewMessage, PopRequest, Pushed

if TYPE_CHECKING:
    from queen.client.app import App
    from queen.client.client import Client

_SHORTEST: Final = 1.0
_LONGEST: Final = 20.0
_TOLD: Final = 1.0
_LEASE: Final = 10
_DEAD: Final = "the message {} is a dead letter: `queen dlq ls` tells why"


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
        # No key of its own: a call that is replayed has a second result, behind the first, which stays the answer.
        return new_message(self._queue, text, str(call), None, None, None)

    async def wait(self, call: Pushed, kind: Any, timeout: float) -> Any:
        """The result of a call; it can be asked for again."""
        client = await self._app.opened()
        loop = asyncio.get_running_loop()
        deadline, poll = loop.time() + timeout, _SHORTEST
        while (left := deadline - loop.time()) > 0:
            told = await self._find(client, call.id, min(left, poll))
            poll = min(poll * 2, _LONGEST)
            if told is None and await client.standing(call) == "dead":
                # Given up by the queue, so that no worker could tell; or by one that is about to.
                told = await self._find(client, call.id, _TOLD) or _Result(error=_DEAD.format(call.id))
            if told is None:
                continue
            if told.error is not None:
                raise TaskFailed(told.error)
            return decode(bytes(told.result).decode(), kind)
        raise TimeoutError(f"the call {call.id} has no result after {timeout:g} s")

    async def _find(self, client: Client, call: UUID, wait: float) -> _Result | None:
        request = PopRequest(queue=self._queue, partition=str(call), wait=wait, lease_seconds=_LEASE, batch=1)
        found = await client.pop_request(request)
        if not found:
            return None
        await client.nack(found)
        return msgspec.json.decode(found[0].payload, type=_Result)
